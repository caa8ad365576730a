//! What stands in place of the bouncer in a build without the feature `crowdsec`. No file has its table.

use std::{
    path::Path,
    sync::{Arc, Mutex},
};

use crate::{config::daemon::crowdsec::CrowdSec, crowdsec::State};

/// The place of the counts, which has none.
pub type Shown = Arc<Mutex<Option<Counts>>>;

/// Counts that nobody makes.
#[derive(Debug, Clone)]
pub enum Counts {}

/// Does nothing.
pub struct Service;

impl Service {
    /// Returns the service of an instance.
    pub fn of(_: &Path) -> Self {
        Self
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

    /// Follows no table.
    pub fn begin(&mut self) {}
}
