//! Adds up in memory what clients use.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
};

use ratelimit_limiter::{Counted, Record, Refusal};
use scc::{HashMap as Concurrent, hash_map::Entry};

use super::{
    client::stored,
    row::{Key, Row, Totals},
};

/// The most rows in memory, twice: those of now, and those that wait for the file.
pub(super) const MOST: usize = 1 << 16;

/// Adds up in memory what clients use, until a [`super::Writer`] takes it.
#[derive(Debug, Default)]
pub struct Recorder {
    rows: Concurrent<Key, Row>,
    count: AtomicUsize,
    lost: AtomicU64,
}

impl Recorder {
    /// Returns what records requests at this time, in seconds since the Unix epoch.
    #[must_use]
    pub fn at(&self, now: u64) -> At<'_> {
        At { recorder: self, now }
    }

    /// Returns how many requests found no room. Each counts once for each rule.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Counts requests that found no room.
    pub(super) fn lose(&self, totals: Totals) {
        self.lost.fetch_add(totals.requests(), Ordering::Relaxed);
    }

    /// Moves all rows, and returns after that. Requests go on meanwhile.
    pub(super) fn drain(&self, into: &mut HashMap<Key, Row>) {
        self.rows.retain_sync(|key, row| {
            self.count.fetch_sub(1, Ordering::Relaxed);
            let has_room = into.len() < MOST;
            match into.get_mut(key) {
                Some(old) => old.totals.add(row.totals),
                None if has_room => drop(into.insert(*key, row.clone())),
                None => self.lose(row.totals),
            }
            false
        });
    }

    fn add(&self, counted: &Counted<'_>, totals: Totals) {
        let (rule, client) = counted.id();
        match self.rows.entry_sync(Key { rule, client, hour: totals.last / 3_600 }) {
            Entry::Occupied(mut row) => row.get_mut().totals.add(totals),
            Entry::Vacant(_) if self.count.load(Ordering::Relaxed) >= MOST => self.lose(totals),
            Entry::Vacant(place) => {
                self.count.fetch_add(1, Ordering::Relaxed);
                let client = stored(counted.client()).into();
                drop(place.insert_entry(Row { rule: counted.rule().name().into(), client, totals }));
            }
        }
    }
}

/// Records requests at one time.
#[derive(Debug)]
pub struct At<'a> {
    recorder: &'a Recorder,
    now: u64,
}

impl Record for At<'_> {
    fn admitted(&mut self, counted: &Counted<'_>, cost: u32) {
        self.recorder.add(counted, Totals { admitted: 1, cost: cost.into(), refused: 0, last: self.now });
    }

    fn refused(&mut self, counted: &Counted<'_>, _: Refusal) {
        self.recorder.add(counted, Totals { admitted: 0, cost: 0, refused: 1, last: self.now });
    }
}
