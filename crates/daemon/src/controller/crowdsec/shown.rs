//! What other threads see of the bouncer.

use std::{
    sync::{Arc, Mutex},
    time::{Instant, SystemTime},
};

use crate::crowdsec::State;

/// The place of the counts, for other threads. None without the table in the file.
pub type Shown = Arc<Mutex<Option<Counts>>>;

/// What has become of questions and decisions.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// What commands are told.
    pub state: State,
    /// Decisions in force.
    pub in_force: usize,
    /// When the last answer arrived that was used, on both clocks.
    pub answered: Option<(Instant, SystemTime)>,
    /// Questions with an answer that was used.
    pub answers: u64,
    /// Questions without one.
    pub failures: u64,
}

impl Counts {
    /// Returns what commands are told now.
    pub fn now(&self) -> State {
        let answered_seconds_ago = self.answered.map(|(at, _)| at.elapsed().as_secs());
        State { answered_seconds_ago, ..self.state.clone() }
    }
}
