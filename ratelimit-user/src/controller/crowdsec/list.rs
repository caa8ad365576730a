//! Keeps the list in force that decisions ask for.

use std::{
    net::IpAddr,
    path::{Path, PathBuf},
};

use super::{kernel, told::Told};
use crate::{crowdsec::Decisions, dataplane::Error, ssh};

/// The list in force.
pub(super) struct List {
    pins: PathBuf,
    /// What it is made of. None if it must be made again.
    made: Option<Made>,
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
    pub(super) fn of(pins: &Path) -> Self {
        Self { pins: pins.to_owned(), made: None, told: Told::of(pins) }
    }

    /// Puts decisions in force, unless they are. An operator can have deleted the list, or replaced the instance.
    pub(super) fn put(&mut self, decisions: &Decisions, version: u64) {
        let mut sessions: Vec<IpAddr> = ssh::sessions().iter().map(|session| session.peer).collect();
        sessions.sort_unstable();
        sessions.dedup();
        let made = |entries| Made { version, sessions: sessions.clone(), entries };
        let in_force = kernel::entries(&self.pins);
        if in_force.as_ref().is_ok_and(|entries| self.made == Some(made(*entries))) {
            return;
        }
        let entries = decisions.denied(&sessions);
        let number = (!entries.is_empty()).then_some(entries.len() as u64);
        let outcome = in_force.and_then(|_| kernel::put(&self.pins, entries, decisions.last_end().unwrap_or(0)));
        self.made = outcome.is_ok().then(|| made(number));
        match outcome {
            Ok(()) => self.told.succeed("decisions are in force again"),
            // The next instance gets the list.
            Err(Error::NotAttached) => {}
            Err(error) => self.told.fail(format!("decisions are not in force: {error}"), ""),
        }
    }

    /// Deletes the list, also one of an earlier daemon. Returns whether that is done.
    pub(super) fn forget(&mut self) -> bool {
        self.made = None;
        match kernel::forget(&self.pins) {
            Ok(()) | Err(Error::NotAttached) => self.told.succeed("the list is deleted"),
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

    /// Returns what is wrong now.
    pub(super) fn problem(&self) -> Option<&str> {
        self.told.problem()
    }
}
