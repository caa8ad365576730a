//! Waits until an interface of the file comes or goes: a driver was loaded again, a tunnel reconnected, a VLAN was
//! created again, an interface got another name. An interface that becomes or ends to be a port of another one can
//! change for each interface of the file whether it can be attached.
//!
//! The kernel reports changes by rtnetlink. Reports of other interfaces cost nothing more. All interfaces are listed
//! only if reports were lost, as after thousands at once.

use std::{
    collections::{HashMap, HashSet},
    mem,
    time::Duration,
};

use anyhow::Result;
use ratelimit_dataplane::sys::{
    interface,
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
        Ok(Self { changes, known: known(interface::list()?), changed: HashSet::new(), settled: None, listing })
    }

    /// Waits until some of these interfaces come or go, and returns them. Each change is returned once.
    pub(super) async fn changed(&mut self, requested: &[Interface]) -> Result<Vec<Interface>> {
        loop {
            let now = Instant::now();
            if self.listing.is_due(now) {
                self.list(requested, now);
            }
            if self.settled.is_some_and(|settled| settled <= now) {
                self.settled = None;
                let changed = mem::take(&mut self.changed);
                return Ok(requested.iter().filter(|one| changed.contains(&one.name)).cloned().collect());
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
        let (names, is_moved) = changed(&mut self.known, index, now);
        for one in requested.iter().filter(|one| is_moved || names.contains(&one.name)) {
            self.changed.insert(one.name.clone());
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

/// Records a report. Returns the names that have come or gone by it, and whether the interface has another controller.
fn changed(known: &mut HashMap<u32, Known>, index: u32, now: Option<Known>) -> (Vec<String>, bool) {
    let before = match &now {
        Some(now) => known.insert(index, now.clone()),
        None => known.remove(&index),
    };
    let controller = |known: &Option<Known>| known.as_ref().and_then(|known| known.controller);
    let is_moved = controller(&before) != controller(&now);
    let [before, now] = [before, now].map(|known| known.map(|known| known.name));
    let names = if before == now { Vec::new() } else { before.into_iter().chain(now).collect() };
    (names, is_moved)
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
        assert_eq!(report(2, Some(known("eth0", None))), (names(&[]), false));
        assert_eq!(report(3, Some(known("wan0", None))), (names(&["eth1", "wan0"]), false));
        assert_eq!(report(4, Some(known("eth1", None))), (names(&["eth1"]), false));
        assert_eq!(report(2, Some(known("eth0", Some(4)))), (names(&[]), true));
        assert_eq!(report(2, Some(known("eth0", Some(4)))), (names(&[]), false));
        assert_eq!(report(2, None), (names(&["eth0"]), true));
        assert_eq!(report(2, None), (names(&[]), false));
    }
}
