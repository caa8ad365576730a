//! Moves rows from memory into the engine.

use std::{collections::HashMap, mem, sync::Arc};

use ratelimit_fleet::{
    engine::Engine,
    error::Error,
    kept::usage::{self, BATCH, Batch, PARTS, Store},
};

use super::name;
use crate::usage::{
    recorder::Recorder,
    row::{Key, Row, Totals},
    settings::SharedUsage,
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

    /// Writes what was collected. Once it is late, no further call begins.
    ///
    /// # Errors
    ///
    /// The first [`Error`], which is not that of the URL. Parts of the engine without one are written. The next call tries the
    /// others again, so that nothing counts twice.
    pub async fn write(&mut self, engine: &Engine, is_late: impl Fn() -> bool) -> Result<(), Error> {
        loop {
            self.begin();
            self.send(engine, &is_late).await?;
            if self.waiting.is_empty() {
                return Ok(());
            }
        }
    }

    /// Writes all batches that it can, those of each part in their order.
    async fn send(&mut self, engine: &Engine, is_late: impl Fn() -> bool) -> Result<(), Error> {
        let mut outcome = Ok(());
        let mut failed = Vec::new();
        for batch in mem::take(&mut self.begun).into_iter().rev() {
            // The engine takes a batch for an old one after it has got a later one.
            if failed.iter().any(|other: &Batch| other.part == batch.part) {
                failed.push(batch);
                continue;
            }
            if is_late() {
                failed.push(batch);
                outcome = outcome.and(Err(Error::Slow));
                continue;
            }
            match self.store.add(engine, &self.server, &batch, &self.settings.bounds()).await {
                Ok(lost) => self.recorder.lose(Totals { admitted: lost, ..Totals::default() }),
                Err(error) => {
                    failed.push(batch);
                    outcome = outcome.and(Err(error));
                }
            }
        }
        failed.reverse();
        self.begun = failed;
        outcome
    }

    /// Makes batches of everything that waits, unless its part has batches. The last one is the first.
    fn begin(&mut self) {
        let mut parts: [Vec<usage::Row>; PARTS as usize] = Default::default();
        for (key, row) in mem::take(&mut self.waiting) {
            let client = name::write(&row.rule, &row.client);
            let part = usage::part(&client);
            if self.begun.iter().any(|batch| batch.part == part) {
                self.waiting.insert(key, row);
                continue;
            }
            let (hour, Totals { admitted, cost, refused, last }) = (key.hour, row.totals);
            if let Some(rows) = parts.get_mut(usize::from(part)) {
                rows.push(usage::Row { hour, client, numbers: [admitted, cost, refused, last] });
            }
        }
        for (part, rows) in (0..PARTS).zip(&parts) {
            for rows in rows.chunks(BATCH) {
                self.number += 1;
                self.begun.insert(0, Batch { part, number: self.number, rows: rows.to_vec() });
            }
        }
    }
}
