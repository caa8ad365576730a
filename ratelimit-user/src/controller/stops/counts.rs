//! What became of requests, for metrics.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use crate::stops::{Answer, Reason};

/// The place of the counts, for other threads.
pub(crate) type Shown = Arc<Mutex<Counts>>;

/// What became of requests so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    /// Whether the file has the table `[stops]`.
    pub(crate) is_on: bool,
    /// Requests that have begun a limit.
    pub(crate) stopped: u64,
    /// Requests that would have begun a limit, if not for shadow.
    pub(crate) would_stop: u64,
    /// Requests about an address that has one already.
    pub(crate) already: u64,
    /// Requests that were refused.
    pub(crate) refused: BTreeMap<Reason, u64>,
    /// Limits in force.
    pub(crate) in_force: usize,
    /// Limits that would be in force, if not for shadow.
    pub(crate) in_shadow: usize,
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
