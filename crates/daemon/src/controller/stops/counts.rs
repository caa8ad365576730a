//! What became of requests, for metrics.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use ratelimit_protocol::stops::{Answer, Reason};

/// The place of the counts, for other threads.
pub type Shown = Arc<Mutex<Counts>>;

/// What became of requests so far.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// Whether the file has the table `[stops]`.
    pub is_on: bool,
    /// Requests that have begun a limit.
    pub stopped: u64,
    /// Requests that would have begun a limit, if not for shadow.
    pub would_stop: u64,
    /// Requests about an address that has one already.
    pub already: u64,
    /// Requests that were refused.
    pub refused: BTreeMap<Reason, u64>,
    /// Limits in force.
    pub in_force: usize,
    /// Limits that would be in force, if not for shadow.
    pub in_shadow: usize,
}

impl Counts {
    pub(super) fn count(&mut self, answer: &Answer) {
        match answer {
            Answer::Stopped { .. } => self.stopped += 1,
            Answer::WouldStop { .. } => self.would_stop += 1,
            Answer::Already { .. } => self.already += 1,
            Answer::Refused { reason, .. } => *self.refused.entry(*reason).or_default() += 1,
        }
    }
}
