//! Counters of single sources, and their cached refusals.

use std::time::Duration;

use aya::maps::{IterableMap as _, MapError};
use ratelimit_common::{
    buckets::{bucket::Bucket, sliding_log::Log},
    cells::{
        cell::{self, Cell, RefusalSlot},
        known_source::{self, KnownSource},
    },
    identity::source::Source,
    maps::{
        control::{Control, FEATURE_FRONT, FEATURE_SLIDING_LOGS},
        levels::Levels,
    },
    meters::gcra,
};

use crate::{
    Error,
    error::Tried as _,
    sys::{host, mmap_array::Mapped},
    tables::open::Tables,
};

/// Reads counters and cached refusals of some sources, one after the other.
pub struct SourceCounts<'a> {
    tables: &'a Tables,
    control: Control,
    /// None without cells.
    cells: Option<Mapped<Cell>>,
}

impl<'a> SourceCounts<'a> {
    /// Prepares readings of these tables.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses.
    pub fn of(tables: &'a Tables) -> Result<Self, Error> {
        let control = tables.control()?;
        let has_cells = control.features & FEATURE_FRONT != 0;
        let cells = has_cells.then(|| Mapped::of(tables.front.open()?.map())).transpose()?;
        Ok(Self { tables, control, cells })
    }

    /// Returns whether a cell repeats a refusal of the source now.
    #[must_use]
    pub fn is_refused(&self, source: &Source) -> bool {
        self.refused_for(source).is_some()
    }

    /// Returns for how long a cell repeats a refusal of the source. A changed rule ends it earlier.
    #[must_use]
    pub fn refused_for(&self, source: &Source) -> Option<Duration> {
        let (hash, now) = (source.hash(&self.control.seed), gcra::units(host::now()));
        let left = |noted: &RefusalSlot| {
            let refusal = noted.refusal();
            let is_refusal = refusal.is_about(hash) && refusal.holds(hash, self.control.generation, now);
            is_refusal.then(|| Duration::from_nanos(refusal.left(now) >> gcra::FRACTION_BITS))
        };
        self.cell(source)?.refusals.iter().filter_map(left).max()
    }

    /// Returns whether the source is known, so that the rate of unknown sources does not limit it.
    #[must_use]
    pub fn is_known(&self, source: &Source) -> bool {
        let (hash, second) = (source.hash(&self.control.seed), known_source::second(host::now()));
        let is_in = |cell: Cell| {
            let mut places = cell.known().map(KnownSource).into_iter();
            places.any(|place| place.is(hash) && place.is_known() && !place.gives_way(second))
        };
        [hash, hash ^ 1].into_iter().filter_map(|hash| self.cell_of(hash)).any(is_in)
    }

    /// Returns the cell of a source. None without cells.
    pub(super) fn cell(&self, source: &Source) -> Option<Cell> {
        self.cell_of(source.hash(&self.control.seed))
    }

    fn cell_of(&self, hash: u64) -> Option<Cell> {
        let cells = self.cells.as_ref()?;
        cells.get(cell::index(hash, cells.len() as u32) as usize)
    }

    /// Returns the entry with this index in the levels of lanes.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses.
    pub(super) fn level_of_lane(&self, index: u32) -> Result<Levels, Error> {
        self.tables.levels.open()?.get(&index, 0).tried("cannot read a level")
    }

    pub(super) const fn tables(&self) -> &Tables {
        self.tables
    }

    pub(super) const fn control(&self) -> &Control {
        &self.control
    }

    /// Returns the bucket of a source, with what its sliding log has counted.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses.
    pub fn tracked(&self, source: &Source) -> Result<Option<Bucket>, Error> {
        let (bucket, Some(log)) = (self.bucket(source)?, self.log(source)?) else { return self.bucket(source) };
        let Some(mut bucket) = bucket else { return Ok(Some(log.bucket)) };
        bucket.add_log(&log.bucket);
        Ok(Some(bucket))
    }

    /// Returns the sliding log of a source.
    pub(super) fn log(&self, source: &Source) -> Result<Option<Log>, Error> {
        if self.control.features & FEATURE_SLIDING_LOGS == 0 {
            return Ok(None);
        }
        match self.tables.logs.open()?.get(source, 0) {
            Err(MapError::KeyNotFound) => Ok(None),
            found => Ok(Some(found.tried("cannot read a log")?)),
        }
    }

    /// Returns the bucket of a source.
    pub(super) fn bucket(&self, source: &Source) -> Result<Option<Bucket>, Error> {
        match self.tables.buckets.open()?.get(source, 0) {
            Err(MapError::KeyNotFound) => Ok(None),
            found => Ok(Some(found.tried("cannot read a bucket")?)),
        }
    }
}

/// Returns the packets that passed, that were dropped, and that have passed in shadow.
#[must_use]
pub const fn packets(bucket: &Bucket) -> [u64; 3] {
    [bucket.passed(), bucket.dropped().packets, bucket.would_drop().packets]
}

/// Returns the packets of a bucket since an earlier reading, in the same order.
#[must_use]
pub fn since(bucket: &Bucket, before: [u64; 3]) -> [u64; 3] {
    let mut since = packets(bucket);
    for (packets, before) in since.iter_mut().zip(before) {
        *packets = packets.saturating_sub(before);
    }
    since
}
