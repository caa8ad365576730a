//! Moves rows from memory into the engine.

use std::{collections::HashMap, mem, sync::Arc};

use super::name;
use crate::{
    fleet::{
        engine::Engine,
        error::Error,
        kept::usage::{self, BATCH, Batch, PARTS, Store},
    },
    usage::{
        recorder::Recorder,
        row::{Key, Row, Totals},
        settings::SharedUsage,
    },
};

/// Moves rows from memory into the engine, and keeps them while it does not answer.
#[derive(Debug)]
pub struct SharedWriter {
    recorder: Arc<Recorder>,
    settings: SharedUsage,
    store: Store,
    /// What no other server calls itself.
    server: String,
    waiting: HashMap<Key, Row>,
    /// Batches that the engine has perhaps got.
    begun: Vec<Batch>,
    number: u64,
}

impl SharedWriter {
    /// Creates a writer.
    #[must_use]
    pub fn new(recorder: Arc<Recorder>, settings: SharedUsage) -> Self {
        let server = format!("{:032x}", fastrand::u128(..));
        let store = Store::default();
        Self { recorder, settings, store, server, waiting: HashMap::new(), begun: Vec::new(), number: 0 }
    }

    /// Takes what the recorder has, also without an engine.
    pub fn collect(&mut self) {
        self.recorder.drain(&mut self.waiting);
    }

    /// Returns whether there is nothing to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.begun.is_empty()
    }

    /// Writes what was collected.
    ///
    /// # Errors
    ///
    /// Any [`Error`] but that of the URL. The next call tries the same again, so that nothing counts twice.
    pub async fn write(&mut self, engine: &Engine) -> Result<(), Error> {
        loop {
            while let Some(batch) = self.begun.last() {
                let lost = self.store.add(engine, &self.server, batch, &self.settings.bounds()).await?;
                self.recorder.lose(Totals { admitted: lost, ..Totals::default() });
                self.begun.pop();
            }
            if self.waiting.is_empty() {
                return Ok(());
            }
            self.begin();
        }
    }

    /// Makes batches of everything that waits. The last one is the first.
    fn begin(&mut self) {
        let mut parts: [Vec<usage::Row>; PARTS as usize] = Default::default();
        for (Key { hour, .. }, Row { rule, client, totals }) in mem::take(&mut self.waiting) {
            let client = name::write(&rule, &client);
            let Totals { admitted, cost, refused, last } = totals;
            let part = usage::part(&client);
            if let Some(rows) = parts.get_mut(usize::from(part)) {
                rows.push(usage::Row { hour, client, numbers: [admitted, cost, refused, last] });
            }
        }
        for (part, rows) in (0..PARTS).zip(&parts) {
            self.begun.extend(rows.chunks(BATCH).map(|rows| Batch { part, number: 0, rows: rows.to_vec() }));
        }
        for batch in self.begun.iter_mut().rev() {
            self.number += 1;
            batch.number = self.number;
        }
    }
}
