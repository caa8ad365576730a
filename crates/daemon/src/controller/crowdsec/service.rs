//! The thread of the bouncer, which runs while the file has its table, and changes of this table.

use std::{
    mem,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, mpsc::channel},
    thread,
};

use ratelimit_base::notify::journal::{Level, say};

use super::{
    bouncer::{Bouncer, Event, Running},
    shown::Shown,
};
use crate::{config::daemon::crowdsec::CrowdSec, crowdsec::State, ssh};

/// Puts decisions in force until it is dropped.
pub struct Service {
    pins: PathBuf,
    /// The session that started the daemon.
    origin: ssh::Origin,
    /// None before the first file.
    table: Option<Option<CrowdSec>>,
    /// Whether it is not followed yet.
    is_new: bool,
    running: Running,
    shown: Shown,
}

impl Service {
    /// Returns a service without a table, for the instance with these pins. Must be called when the daemon starts.
    pub fn of(pins: &Path) -> Self {
        Self {
            pins: pins.to_owned(),
            origin: ssh::Origin::of_this_process(),
            table: None,
            is_new: false,
            running: Arc::new(Mutex::new(None)),
            shown: Shown::default(),
        }
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
        let Some(table) = self.table.clone().filter(|_| mem::take(&mut self.is_new)) else { return };
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.is_none() {
            let (events, happened) = channel();
            let bouncer = Bouncer::of(&self.pins, self.origin, events.clone(), Arc::clone(&self.shown));
            let of_thread = Arc::clone(&self.running);
            let run = move || bouncer.run(&happened, &of_thread);
            match thread::Builder::new().name("crowdsec".to_owned()).spawn(run) {
                Ok(_) => *running = Some(events),
                Err(error) => {
                    self.is_new = true;
                    return say(Level::Error, &format!("crowdsec: the next reload tries again: {error}"));
                }
            }
        }
        if let Some(events) = &*running {
            // The thread is there, because it needs this lock to end.
            let _ = events.send(Event::Follow(table));
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(events) = self.running.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = events.send(Event::End);
        }
    }
}
