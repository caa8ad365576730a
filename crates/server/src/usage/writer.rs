//! Moves rows from memory into the file.

use std::{collections::HashMap, path::PathBuf, sync::Arc};

use super::{
    error::UsageError,
    recorder::Recorder,
    row::{Key, Row},
    settings::UsageFile,
    store::{self, Store},
};

/// Moves rows from memory into a file, and keeps them while the file cannot be written.
#[derive(Debug)]
pub struct Writer {
    recorder: Arc<Recorder>,
    settings: UsageFile,
    store: Option<Store>,
    waiting: HashMap<Key, Row>,
}

impl Writer {
    /// Creates a writer. It opens the file when it first writes.
    #[must_use]
    pub fn new(recorder: Arc<Recorder>, settings: UsageFile) -> Self {
        Self { recorder, settings, store: None, waiting: HashMap::new() }
    }

    /// Returns whether nothing waits because a write has failed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Writes what the recorder has, and deletes what is too old at `now`: seconds since the Unix epoch. A damaged file gets
    /// another name, which is returned, and a new one takes its place.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written. The next call tries the same again, with a file that it opens anew.
    pub fn write(&mut self, now: u64) -> Result<Option<PathBuf>, UsageError> {
        self.recorder.drain(&mut self.waiting);
        match self.write_waiting(now) {
            Err(error) if error.is_damage() => {
                let aside = store::set_aside(&self.settings.path)?;
                self.write_waiting(now).map(|()| Some(aside))
            }
            written => written.map(|()| None),
        }
    }

    fn write_waiting(&mut self, now: u64) -> Result<(), UsageError> {
        let open = self.store.take().filter(Store::is_in_place).map_or_else(|| Store::open(&self.settings), Ok);
        let mut store = open?;
        let lost = store.write(&self.settings, &self.waiting, now)?;
        self.recorder.lose(lost);
        self.waiting.clear();
        self.store = Some(store);
        Ok(())
    }
}
