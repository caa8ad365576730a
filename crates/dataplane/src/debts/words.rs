//! The levels and filters of cells that belong to a source.

use std::sync::atomic::{AtomicU64, Ordering};

use aya::maps::IterableMap as _;
use ratelimit_common::{
    cells::{
        bucket_filter::{Bits, BucketFilter},
        cell::{self, Cell},
    },
    limits::policy::Policy,
    maps::{
        control::{Control, FEATURE_FRONT, FEATURE_LANES},
        levels::{self, Levels},
    },
};

use crate::{Error, rules::policies::levels as levels_in_memory, sys::mmap_array::Mapped, tables::open::Tables};

/// The cells and lanes of an instance.
pub(super) struct Words {
    cells: Mapped<Cell>,
    /// None if every limit uses the levels within cells.
    lanes: Option<Mapped<Levels>>,
}

impl Words {
    /// Maps them. Returns None without cells.
    pub(super) fn of(tables: &Tables, control: &Control) -> Result<Option<Self>, Error> {
        if control.features & FEATURE_FRONT == 0 {
            return Ok(None);
        }
        let has_lanes = control.features & FEATURE_LANES != 0;
        let lanes = if has_lanes { Some(Mapped::to_write(tables.levels.open()?.map())?) } else { None };
        Ok(Some(Self { cells: Mapped::to_write(tables.front.open()?.map())?, lanes }))
    }

    /// Returns the levels that packets of a policy charge, for the source with this hash.
    pub(super) fn levels(&self, policy: &Policy, hash: u64) -> Option<[&AtomicU64; 2]> {
        match (policy.lane(), &self.lanes) {
            (lane @ 1.., Some(lanes)) => levels_in_memory::of_lanes(lanes, levels::index(lane, hash) as usize),
            _ => levels_in_memory::of_cell(&self.cells, self.cell(hash)),
        }
    }

    /// Notes in the filter of this epoch that the source with this hash has a bucket. No program may run meanwhile.
    pub(super) fn note(&self, hash: u64, epoch: u64) {
        let Some(place) = self.cells.place(self.cell(hash)) else { return };
        // SAFETY: the words lie within the mapping, aligned, and all accesses are atomic.
        let words = unsafe { (&raw mut (*place).filters).cast::<u64>() };
        // SAFETY: there are two words.
        let word = unsafe { AtomicU64::from_ptr(words.add((epoch & 1) as usize)) };
        let filter = BucketFilter(word.load(Ordering::Acquire));
        word.store(filter.with(Bits::of(hash), epoch).0, Ordering::Release);
    }

    fn cell(&self, hash: u64) -> usize {
        cell::index(hash, self.cells.len() as u32) as usize
    }
}
