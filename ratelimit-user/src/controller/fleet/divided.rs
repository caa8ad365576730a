//! Bursts that the hosts of a fleet divide: each new source begins with an equal part on each host.

use std::path::{Path, PathBuf};

use ratelimit_common::fleet::{lease::EVERY_SOURCE, share::Terms};

use super::watched::nanoseconds;
use crate::{
    config::daemon::fleet::{Fleet, Limits, Start},
    dataplane::{
        Error,
        instance::starts,
        leases::{Grant, Leases},
        rules::policies::starts::Starts,
    },
};

/// The state of the policies whose bursts are divided.
pub(super) struct Divided {
    pins: PathBuf,
    starts: Starts,
    /// The generation of the rules in which the policies begin as they should.
    done: Option<u32>,
    is_under_way: bool,
}

impl Divided {
    pub(super) fn new(pins: &Path, fleet: &Fleet) -> Self {
        let starts = match (fleet.start, fleet.limits) {
            (Start::Whole, _) => Starts::Whole,
            (Start::Share, Limits::Default) => Starts::OfDefault,
            (Start::Share, Limits::All) => Starts::OfAll,
        };
        Self { pins: pins.to_owned(), starts, done: None, is_under_way: false }
    }

    /// Returns a change of the policies that is due, which may wait for other commands. [`Self::end`] takes its outcome.
    pub(super) fn change(&mut self, generation: u32) -> Option<impl FnOnce() -> (u32, Result<(), Error>) + use<>> {
        let is_done = self.done.is_some_and(|done| done == generation || self.starts == Starts::Whole);
        if is_done || self.is_under_way {
            return None;
        }
        self.is_under_way = true;
        let (pins, starts) = (self.pins.clone(), self.starts);
        Some(move || (generation, starts::put(&pins, starts)))
    }

    /// Takes the outcome of a change. After a failure, the next look tries again.
    pub(super) fn end(&mut self, (generation, outcome): (u32, Result<(), Error>)) {
        self.is_under_way = false;
        if outcome.is_ok() {
            self.done = Some(generation);
        }
    }

    /// Returns the number of hosts that divide bursts, if they do.
    pub(super) fn among(&self, hosts: usize) -> Option<usize> {
        (self.starts != Starts::Whole && hosts > 1).then_some(hosts)
    }
}

/// Tells the program among how many hosts bursts are divided, as long as a lease lasts. Without a place for that, they
/// are whole.
pub(super) fn tell(leases: &Leases, hosts: usize, terms: &Terms, now: u64) {
    let (share, end) = (1.0 / hosts as f64, now + nanoseconds(terms.lease()));
    let _ = leases.grant(&Grant { hash: EVERY_SOURCE, share, end, states: [0; 2] }, now);
}
