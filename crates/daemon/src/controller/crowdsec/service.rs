//! The thread of the bouncer, and changes of its table.

use std::{
    mem,
    path::Path,
    sync::{
        Arc, PoisonError,
        mpsc::{Sender, channel},
    },
    thread,
};

use anyhow::Result;

use super::{
    bouncer::{Bouncer, Event},
    shown::Shown,
};
use crate::{config::daemon::crowdsec::CrowdSec, crowdsec::State};

/// Puts decisions in force until it is dropped.
pub struct Service {
    /// None before the first file.
    table: Option<Option<CrowdSec>>,
    /// Whether it is not followed yet.
    is_new: bool,
    events: Sender<Event>,
    shown: Shown,
}

impl Service {
    /// Starts without a table, for the instance with these pins.
    pub fn start(pins: &Path) -> Result<Self> {
        let (events, happened) = channel();
        let shown = Shown::default();
        let bouncer = Bouncer::of(pins, events.clone(), Arc::clone(&shown));
        thread::Builder::new().name("crowdsec".to_owned()).spawn(move || bouncer.run(&happened))?;
        Ok(Self { table: None, is_new: false, events, shown })
    }

    /// Returns the place of the counts, for other threads.
    pub fn shown(&self) -> Shown {
        Arc::clone(&self.shown)
    }

    /// Returns what commands are told. None without the table in the file.
    pub fn state(&self) -> Option<State> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(super::Counts::now)
    }

    /// Takes the table of a file, or none. [`Self::begin`] follows it.
    pub fn prepare(&mut self, table: Option<&CrowdSec>) {
        if self.table.as_ref().is_none_or(|before| before.as_ref() != table) {
            (self.table, self.is_new) = (Some(table.cloned()), true);
        }
    }

    /// Follows a new table. Without one, the list is deleted, also one of an earlier daemon.
    pub fn begin(&mut self) {
        if let Some(table) = self.table.clone().filter(|_| mem::take(&mut self.is_new)) {
            // The thread ends with this service only.
            let _ = self.events.send(Event::Follow(table));
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.events.send(Event::End);
    }
}
