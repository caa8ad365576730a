//! What other threads see of the bouncer.

use std::{
    sync::{Arc, Mutex},
    time::{Instant, SystemTime},
};

use crate::crowdsec::State;

/// The place of the counts, for other threads. None without the table in the file.
pub(crate) type Shown = Arc<Mutex<Option<Counts>>>;

/// What has become of questions and decisions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    /// What commands are told.
    pub(crate) state: State,
    /// Decisions in force.
    pub(crate) in_force: usize,
    /// When the last answer arrived that was used, on both clocks.
    pub(crate) answered: Option<(Instant, SystemTime)>,
    /// Questions with an answer that was used.
    pub(crate) answers: u64,
    /// Questions without one.
    pub(crate) failures: u64,
}

impl Counts {
    /// Returns what commands are told now.
    pub(crate) fn now(&self) -> State {
        let answered_seconds_ago = self.answered.map(|(at, _)| at.elapsed().as_secs());
        State { answered_seconds_ago, ..self.state.clone() }
    }
}
