//! The old maps of a resize, from which entries move.

use aya::maps::{Array, HashMap, Map, MapData};
use ratelimit_common::{buckets::bucket::Bucket, cells::cell::Cell, identity::source::Source, maps::names};

use crate::Bytecode;

/// The old maps. Each has one entry, since there is no operator's map behind it.
pub struct OldMaps {
    buckets: HashMap<MapData, Source, Bucket>,
    cells: Array<MapData, Cell>,
}

impl OldMaps {
    /// Returns the old maps of a program with a resize in progress.
    ///
    /// # Panics
    ///
    /// If they are already taken.
    #[must_use]
    pub fn of(bytecode: &mut Bytecode) -> Self {
        let mut take = |name| bytecode.take_map(name);
        let (buckets, cells): (Map, Map) = (take(names::OLD_BUCKETS), take(names::OLD_FRONT));
        let buckets = buckets.try_into().expect("no map of buckets");
        Self { buckets, cells: cells.try_into().expect("no array of cells") }
    }

    /// Copies the state of this source from a program with one cell.
    ///
    /// # Panics
    ///
    /// If the kernel refuses.
    pub fn take_over(&mut self, source: Source, from: &Bytecode) {
        let _ = self.buckets.remove(&source);
        if let Some(bucket) = from.bucket(source) {
            self.buckets.insert(source, bucket, 0).expect("cannot write a bucket");
        }
        let cell = from.tables.front.open().unwrap().get(&0, 0).expect("cannot read a cell");
        self.cells.set(0, cell, 0).expect("cannot write a cell");
    }
}
