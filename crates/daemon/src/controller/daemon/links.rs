//! Waits until an interface of the file comes or goes: a driver was loaded again, a tunnel reconnected, a VLAN was
//! created again, an interface got another name. An interface that becomes or ends to be a port of another one can
//! change for each interface of the file whether it can be attached.
//!
//! The kernel reports changes by rtnetlink. Reports of other interfaces cost nothing more. All interfaces are listed
//! only if reports were lost, as after thousands at once.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    mem,
    time::Duration,
};

use anyhow::Result;
use ratelimit_dataplane::sys::{
    interface,
    layers::Stack,
    link_events::{Change, Changes, Known},
};
use tokio::{
    io::unix::AsyncFd,
    time::{Instant, timeout_at},
};

use super::pace::{Pace, SETTLE};
use crate::config::Interface;

/// Watches the interfaces of this network namespace.
pub(super) struct Links {
    changes: AsyncFd<Changes>,
    /// The interfaces by their indices.
    known: HashMap<u32, Known>,
    /// Names in the file that have come or gone since they were last returned.
    changed: HashSet<String>,
    /// Ports that have another controller since then, and these controllers, by their indices.
    moved: BTreeSet<u32>,
    /// When to return them.
    settled: Option<Instant>,
    /// When to list all interfaces.
    listing: Pace,
}

impl Links {
    /// Watches from now on.
    pub(super) fn new() -> Result<Self> {
        // SAFETY: `AsyncFd` owns the descriptor, which is never closed or replaced before it.
        let changes = unsafe { AsyncFd::register(Changes::new()?) }?;
        let listing = Pace::default();
        let (changed, moved) = (HashSet::new(), BTreeSet::new());
        Ok(Self { changes, known: known(interface::list()?), changed, moved, settled: None, listing })
    }

    /// Waits until some of these interfaces come or go, and returns them, and those above or below ports that have moved.
    /// Each change is returned once.
    pub(super) async fn changed(&mut self, requested: &[Interface]) -> Result<Vec<Interface>> {
        loop {
            let now = Instant::now();
            if self.listing.is_due(now) {
                self.list(requested, now);
            }
            if self.settled.is_some_and(|settled| settled <= now) {
                self.settled = None;
                let (mut changed, moved) = (mem::take(&mut self.changed), mem::take(&mut self.moved));
                changed.extend(related(&moved, requested));
                let found: Vec<_> = requested.iter().filter(|one| changed.contains(&one.name)).cloned().collect();
                if !found.is_empty() {
                    return Ok(found);
                }
                continue;
            }
            let readable = self.changes.readable();
            let due = [self.settled, self.listing.due()].into_iter().flatten().min();
            let ready = match due {
                Some(due) => timeout_at(due, readable).await.ok(),
                None => Some(readable.await),
            };
            let Some(ready) = ready else { continue };
            let mut ready = ready?;
            let reports = self.changes.get_ref().read();
            ready.clear_ready();
            match reports {
                Some(reports) => {
                    reports.into_iter().for_each(|Change { index, now }| self.record(index, now, requested, SETTLE));
                }
                None => self.listing.plan(Instant::now()),
            }
        }
    }

    /// Records a report, and when to return what it changes.
    fn record(&mut self, index: u32, now: Option<Known>, requested: &[Interface], wait: Duration) {
        let (names, moved) = changed(&mut self.known, index, now);
        let listed = names.into_iter().filter(|name| requested.iter().any(|one| one.name == *name));
        let before = self.changed.len() + self.moved.len();
        self.changed.extend(listed);
        self.moved.extend(moved);
        if self.changed.len() + self.moved.len() > before {
            self.settled.get_or_insert_with(|| Instant::now() + wait);
        }
    }

    /// Finds the changes whose reports were lost.
    fn list(&mut self, requested: &[Interface], now: Instant) {
        // The kernel can fail to answer for a moment.
        let Ok(present) = interface::list_once().map(known) else { return self.listing.plan(now) };
        let gone: Vec<u32> = self.known.keys().filter(|index| !present.contains_key(index)).copied().collect();
        gone.into_iter().for_each(|index| self.record(index, None, requested, Duration::ZERO));
        present.into_iter().for_each(|(index, now)| self.record(index, Some(now), requested, Duration::ZERO));
    }
}

/// Returns those of the requested interfaces that are above or below one that has moved.
fn related(moved: &BTreeSet<u32>, requested: &[Interface]) -> Vec<String> {
    if moved.is_empty() {
        return Vec::new();
    }
    let names = requested.iter().map(|one| one.name.clone());
    // The kernel can fail to answer for a moment.
    let Ok(all) = interface::list_once() else { return names.collect() };
    let stack = Stack::of(&all);
    names.filter(|name| stack.named(name).is_some_and(|one| stack.is_related(one.index, moved))).collect()
}

/// Records a report. Returns the names that have come or gone by it. If the interface has another controller, also
/// returns the indices of all three.
fn changed(known: &mut HashMap<u32, Known>, index: u32, now: Option<Known>) -> (Vec<String>, Vec<u32>) {
    let before = match &now {
        Some(now) => known.insert(index, now.clone()),
        None => known.remove(&index),
    };
    let controller = |known: &Option<Known>| known.as_ref().and_then(|known| known.controller);
    let controllers = [controller(&before), controller(&now)];
    let is_moved = controllers[0] != controllers[1];
    let moved = controllers.into_iter().flatten().chain([index]).filter(|_| is_moved).collect();
    let [before, now] = [before, now].map(|known| known.map(|known| known.name));
    let names = if before == now { Vec::new() } else { before.into_iter().chain(now).collect() };
    (names, moved)
}

fn known(interfaces: Vec<interface::Interface>) -> HashMap<u32, Known> {
    interfaces.into_iter().map(|interface| (interface.index, Known::of(interface))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_come_go_and_move_are_changed_and_so_is_another_controller() {
        let known = |name: &str, controller| Known { name: name.to_owned(), controller };
        let mut all = HashMap::from([(1, known("lo", None)), (2, known("eth0", None)), (3, known("eth1", None))]);
        let mut report = |index, now| changed(&mut all, index, now);
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(report(2, Some(known("eth0", None))), (names(&[]), vec![]));
        assert_eq!(report(3, Some(known("wan0", None))), (names(&["eth1", "wan0"]), vec![]));
        assert_eq!(report(4, Some(known("eth1", None))), (names(&["eth1"]), vec![]));
        assert_eq!(report(2, Some(known("eth0", Some(4)))), (names(&[]), vec![4, 2]));
        assert_eq!(report(2, Some(known("eth0", Some(4)))), (names(&[]), vec![]));
        assert_eq!(report(2, None), (names(&["eth0"]), vec![4, 2]));
        assert_eq!(report(2, None), (names(&[]), vec![]));
    }
}
