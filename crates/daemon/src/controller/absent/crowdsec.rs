//! What stands in place of the bouncer in a build without the feature `crowdsec`. No file has its table.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use ratelimit_base::notify::journal::{Level, say};
use ratelimit_common::rules::rule::CROWDSEC;

use crate::{config::daemon::crowdsec::CrowdSec, controller::lists_of_others, crowdsec::State};

/// The place of the counts, which has none.
pub type Shown = Arc<Mutex<Option<Counts>>>;

/// Counts that nobody makes.
#[derive(Debug, Clone)]
pub enum Counts {}

/// Deletes what a daemon of another build has left.
pub struct Service {
    pins: PathBuf,
}

impl Service {
    /// Returns the service of an instance.
    pub fn of(pins: &Path) -> Self {
        Self { pins: pins.to_owned() }
    }

    /// Returns the place of the counts.
    pub fn shown(&self) -> Shown {
        Shown::default()
    }

    /// Returns what commands are told: nothing.
    pub fn state(&self) -> Option<State> {
        None
    }

    /// Takes the table of a file, which has none.
    pub fn prepare(&mut self, _: Option<&CrowdSec>) {}

    /// Follows no table, and deletes the list of an earlier daemon.
    pub fn begin(&mut self) {
        if let Err(error) = lists_of_others::forget(&self.pins, CROWDSEC) {
            say(Level::Warning, &format!("crowdsec: the list stays in force for an hour at most: {error}"));
        }
    }
}
