//! The rates of all packets in the last minute.

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    time::Duration,
};

use ratelimit_dataplane::{
    instance::read_only::View,
    readings::rates::{Moment, Rates},
};

/// The time between two readings.
pub(super) const STEP: Duration = Duration::from_secs(5);
/// Readings of a minute: its begin, and the end of each step.
const READINGS: usize = 13;

/// Readings of the counters.
pub(super) struct Minute {
    pins: PathBuf,
    moments: VecDeque<Moment>,
}

impl Minute {
    pub(super) fn of(pins: &Path) -> Self {
        Self { pins: pins.to_owned(), moments: VecDeque::new() }
    }

    /// Reads the counters. Without an instance, or with another one, all readings are forgotten.
    pub(super) fn read(&mut self) {
        let moment = View::open(&self.pins).and_then(|view| Moment::now(view.tables()));
        let Ok(moment) = moment else { return self.moments.clear() };
        if self.moments.back().is_some_and(|last| !moment.continues(last)) {
            self.moments.clear();
        }
        self.moments.push_back(moment);
        while self.moments.len() > READINGS {
            self.moments.pop_front();
        }
    }

    /// Returns the rates. None before the second reading.
    pub(super) fn rates(&self) -> Option<Rates> {
        let (first, last) = (self.moments.front()?, self.moments.back()?);
        (self.moments.len() > 1).then(|| last.since(first))
    }
}
