//! Keeps the list in force that decisions ask for.

use std::{
    net::IpAddr,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use ratelimit_dataplane::{Error, sys::host};

use super::{kernel, told::Told};
use crate::{crowdsec::Decisions, ssh};

/// The list ends by itself after this time, in nanoseconds. A daemon that has ended for good leaves no old decisions.
const LASTS: u64 = 3_600 * 1_000_000_000;
/// The time between two rebuilds of the filter of sources. They read all rules and lists.
const REBUILDS: Duration = Duration::from_secs(300);

/// The list in force.
pub(super) struct List {
    pins: PathBuf,
    /// The session that started the daemon.
    origin: ssh::Origin,
    /// What it is made of. None if it must be made again.
    made: Option<Made>,
    /// When it ends, in nanoseconds of the monotonic clock.
    ends: u64,
    /// The number of decisions in force.
    decisions: usize,
    /// When the filter of sources was rebuilt.
    rebuilt: Option<Instant>,
    told: Told,
}

/// What a list is made of.
#[derive(Debug, PartialEq, Eq)]
struct Made {
    /// The version of the decisions.
    version: u64,
    /// Addresses of sessions, which are left out.
    sessions: Vec<IpAddr>,
    /// None without a source to deny.
    entries: Option<u64>,
}

impl List {
    pub(super) fn of(pins: &Path, origin: ssh::Origin) -> Self {
        let (pins, told) = (pins.to_owned(), Told::of(pins));
        Self { pins, origin, made: None, ends: 0, decisions: 0, rebuilt: None, told }
    }

    /// Puts decisions in force, unless they are. An operator can have deleted the list, or replaced the instance.
    pub(super) fn put(&mut self, decisions: &Decisions, version: u64) {
        // Without logind, nothing tells clients of SSH that have logged in from those that guess passwords.
        let sessions = self.origin.session().into_iter().chain(ssh::sessions());
        let mut sessions: Vec<IpAddr> = sessions.map(|session| session.peer).collect();
        sessions.sort_unstable();
        sessions.dedup();
        let made = |entries| Made { version, sessions: sessions.clone(), entries };
        let (in_force, now, last) = (kernel::entries(&self.pins), host::now(), decisions.last_end().unwrap_or(0));
        let is_made = in_force.as_ref().is_ok_and(|entries| self.made == Some(made(*entries)));
        if is_made && lasts(self.ends, last, now) {
            return;
        }
        let entries = decisions.denied(&sessions);
        let number = (!entries.is_empty()).then_some(entries.len() as u64);
        let (ends, rebuilds) = (end(last, now), self.rebuilt.is_none_or(|at| at.elapsed() >= REBUILDS));
        let outcome = in_force.and_then(|_| kernel::put(&self.pins, entries, ends, rebuilds));
        self.made = outcome.is_ok().then(|| made(number));
        match outcome {
            Ok(()) => {
                (self.ends, self.decisions) = (ends, decisions.count());
                self.rebuilt = self.rebuilt.filter(|_| !rebuilds).or_else(|| Some(Instant::now()));
                self.told.succeed("decisions are in force again");
            }
            Err(error) => {
                // The next instance gets the list.
                self.decisions = if matches!(error, Error::NotAttached(_)) { 0 } else { self.decisions };
                self.told.fail(format!("decisions are not in force: {error}"), "");
            }
        }
    }

    /// Deletes the list, also one of an earlier daemon. Returns whether that is done.
    pub(super) fn forget(&mut self) -> bool {
        (self.made, self.decisions) = (None, 0);
        match kernel::forget(&self.pins) {
            Ok(()) | Err(Error::NotAttached(_)) => self.told.succeed("the list is deleted"),
            Err(error) => {
                self.told.fail(format!("the list stays in force, although the file has no table: {error}"), "");
            }
        }
        self.told.problem().is_none()
    }

    /// Returns the number of entries in force.
    pub(super) fn entries(&self) -> u64 {
        kernel::entries(&self.pins).ok().flatten().unwrap_or(0)
    }

    /// Returns the number of decisions in force.
    pub(super) fn decisions(&self) -> usize {
        self.decisions
    }

    /// Returns what is wrong now.
    pub(super) fn problem(&self) -> Option<&str> {
        self.told.problem()
    }
}

/// Returns when a list made at `now` ends whose last decision ends at `last`.
fn end(last: u64, now: u64) -> u64 {
    last.min(now.saturating_add(LASTS))
}

/// Returns whether a list that ends at `ends` needs no later end yet.
fn lasts(ends: u64, last: u64, now: u64) -> bool {
    ends >= last.min(now.saturating_add(LASTS / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_ends_an_hour_after_the_daemon_at_the_latest_and_with_its_last_decision() {
        const MINUTE: u64 = LASTS / 60;
        let (now, week) = (5 * MINUTE, 10_080 * MINUTE);
        assert_eq!((end(week, now), end(now + 4 * MINUTE, now)), (65 * MINUTE, 9 * MINUTE));
        // A running daemon gives it a later end in time, until that of the last decision.
        assert!(lasts(65 * MINUTE, week, 35 * MINUTE) && !lasts(65 * MINUTE, week, 36 * MINUTE));
        assert!(lasts(65 * MINUTE, 65 * MINUTE, 64 * MINUTE));
        assert!(lasts(0, 0, now));
    }
}
