//! Waits until an interface of the file comes or goes: a driver was loaded again, a tunnel reconnected, a VLAN was
//! created again, an interface got another name.
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
    link_events::{Change, Changes},
};
use tokio::{
    io::unix::AsyncFd,
    time::{Instant, timeout_at},
};

use crate::config::Interface;

/// How long to wait after a report. More reports follow at once, such as the new name.
const SETTLE: Duration = Duration::from_millis(200);

/// The longest wait before all interfaces are listed. While reports are lost again and again, each wait is twice as long
/// as the one before.
const LONGEST: Duration = Duration::from_secs(5);

/// Watches the interfaces of this network namespace.
pub(super) struct Links {
    changes: AsyncFd<Changes>,
    /// Names of the interfaces by their indices.
    known: HashMap<u32, String>,
    /// Names in the file that have come or gone since they were last returned.
    changed: HashSet<String>,
    /// When to return them.
    settled: Option<Instant>,
    /// When to list all interfaces.
    listing: Pace,
}

/// When to do what reports require again and again.
struct Pace {
    due: Option<Instant>,
    /// The last time.
    last: Option<Instant>,
    /// The last wait.
    wait: Duration,
}

impl Links {
    /// Watches from now on.
    pub(super) fn new() -> Result<Self> {
        // SAFETY: `AsyncFd` owns the descriptor, which is never closed or replaced before it.
        let changes = unsafe { AsyncFd::register(Changes::new()?) }?;
        let listing = Pace { due: None, last: None, wait: SETTLE };
        Ok(Self { changes, known: names(interface::list()?), changed: HashSet::new(), settled: None, listing })
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
            let due = [self.settled, self.listing.due].into_iter().flatten().min();
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
                    reports.into_iter().for_each(|Change { index, name }| self.record(index, name, requested, SETTLE));
                }
                None => self.listing.plan(Instant::now()),
            }
        }
    }

    /// Records a report, and when to return what it changes.
    fn record(&mut self, index: u32, name: Option<String>, requested: &[Interface], wait: Duration) {
        let names = changed_names(&mut self.known, index, name);
        for name in names.filter(|name| requested.iter().any(|interface| interface.name == *name)) {
            self.changed.insert(name);
            self.settled.get_or_insert_with(|| Instant::now() + wait);
        }
    }

    /// Finds the changes whose reports were lost.
    fn list(&mut self, requested: &[Interface], now: Instant) {
        // The kernel can fail to answer for a moment.
        let Ok(present) = interface::list_once().map(names) else { return self.listing.plan(now) };
        let gone: Vec<u32> = self.known.keys().filter(|index| !present.contains_key(index)).copied().collect();
        gone.into_iter().for_each(|index| self.record(index, None, requested, Duration::ZERO));
        present.into_iter().for_each(|(index, name)| self.record(index, Some(name), requested, Duration::ZERO));
    }
}

impl Pace {
    /// Plans the next time, unless one is planned.
    fn plan(&mut self, now: Instant) {
        if self.due.is_none() {
            let is_busy = self.last.is_some_and(|last| now.duration_since(last) <= self.wait);
            self.wait = if is_busy { (self.wait * 2).min(LONGEST) } else { SETTLE };
            self.due = Some(now + self.wait);
        }
    }

    /// Returns whether the time has come.
    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.due.is_some_and(|due| due <= now);
        if is_due {
            (self.due, self.last) = (None, Some(now));
        }
        is_due
    }
}

/// Records a report. Returns the names that have come or gone by it.
fn changed_names(known: &mut HashMap<u32, String>, index: u32, name: Option<String>) -> impl Iterator<Item = String> {
    let before = match &name {
        Some(name) => known.insert(index, name.clone()),
        None => known.remove(&index),
    };
    let is_same = before == name;
    before.into_iter().chain(name).filter(move |_| !is_same)
}

fn names(interfaces: Vec<interface::Interface>) -> HashMap<u32, String> {
    interfaces.into_iter().map(|interface| (interface.index, interface.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_become_longer_while_reports_are_lost() {
        let begin = Instant::now();
        let (mut pace, mut now, mut waits) = (Pace { due: None, last: None, wait: SETTLE }, begin, Vec::new());
        for _ in 0..8 {
            pace.plan(now);
            pace.plan(now + SETTLE / 2);
            let due = pace.due.unwrap();
            assert!(!pace.is_due(due - Duration::from_millis(1)) && pace.is_due(due) && !pace.is_due(due));
            waits.push((due - now).as_millis());
            now = due + Duration::from_millis(1);
        }
        assert_eq!(waits, [200, 400, 800, 1600, 3200, 5000, 5000, 5000]);
        pace.plan(now + LONGEST);
        assert_eq!(pace.due, Some(now + LONGEST + SETTLE));
    }

    #[test]
    fn names_that_come_go_and_move_are_changed() {
        let mut known = HashMap::from([(1, "lo".to_owned()), (2, "eth0".to_owned()), (3, "eth1".to_owned())]);
        let mut changed =
            |index, name: Option<&str>| changed_names(&mut known, index, name.map(str::to_owned)).collect::<Vec<_>>();
        assert_eq!(changed(2, Some("eth0")), [""; 0]);
        assert_eq!(changed(3, Some("wan0")), ["eth1", "wan0"]);
        assert_eq!(changed(4, Some("eth1")), ["eth1"]);
        assert_eq!(changed(2, None), ["eth0"]);
        assert_eq!(changed(2, None), [""; 0]);
    }
}
