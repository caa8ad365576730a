//! Counters of single sources, and their cached refusals.

use std::time::Duration;

use aya::maps::{IterableMap as _, MapError};
use ratelimit_common::{
    buckets::bucket::Bucket,
    cells::cell::{self, Cell, RefusalSlot},
    identity::source::Source,
    maps::control::{Control, FEATURE_FRONT, FEATURE_SLIDING_LOGS},
    meters::gcra,
};

use crate::dataplane::{
    Error,
    error::Tried as _,
    sys::{host, mmap_array::Mapped},
    tables::open::Tables,
};

/// Reads the drops of some sources, one after the other.
pub struct Drops<'a> {
    tables: &'a Tables,
    control: Control,
    /// None without cells.
    cells: Option<Mapped<Cell>>,
}

/// Packets of a source that were over its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Whether they have passed in shadow. See [`Bucket::is_in_shadow`].
    pub shadow: bool,
    /// Whether their number is an estimate. See [`Bucket::is_sampled`].
    pub estimated: bool,
}

impl<'a> Drops<'a> {
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

    /// Returns the drops of a source. None if it has no bucket.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses.
    pub fn of_source(&self, source: &Source) -> Result<Option<Count>, Error> {
        let counts = [self.bucket(source)?, self.log(source)?]
            .into_iter()
            .flatten()
            .map(|bucket| Count {
                packets: bucket.over_limit(),
                shadow: bucket.is_in_shadow(),
                estimated: bucket.is_sampled(),
            })
            .reduce(Count::and);
        Ok(counts)
    }

    /// Returns whether a cell repeats a refusal of the source now.
    #[must_use]
    pub fn is_refused(&self, source: &Source) -> bool {
        self.refused_for(source).is_some()
    }

    /// Returns for how long a cell repeats a refusal of the source. A changed rule ends it earlier.
    #[must_use]
    pub fn refused_for(&self, source: &Source) -> Option<Duration> {
        let cells = self.cells.as_ref()?;
        let (hash, now) = (source.hash(&self.control.seed), gcra::units(host::now()));
        let left = |noted: &RefusalSlot| {
            let refusal = noted.refusal();
            let is_refusal = refusal.is_about(hash) && refusal.is_in_force(self.control.generation, now);
            is_refusal.then(|| Duration::from_nanos(refusal.left(now) >> gcra::FRACTION_BITS))
        };
        let cell = cells.get(cell::index(hash, cells.len() as u32) as usize)?;
        cell.refusals.iter().filter_map(left).max()
    }

    /// Returns the packets of a source that have passed by its bucket and its sliding log.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses.
    pub fn passed(&self, source: &Source) -> Result<u64, Error> {
        let buckets = [self.bucket(source)?, self.log(source)?];
        Ok(buckets.into_iter().flatten().map(|bucket| bucket.passed()).sum())
    }

    /// Returns the bucket of a source, with what its sliding log has counted.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses.
    pub fn tracked(&self, source: &Source) -> Result<Option<Bucket>, Error> {
        let (bucket, Some(log)) = (self.bucket(source)?, self.log(source)?) else { return self.bucket(source) };
        let Some(mut bucket) = bucket else { return Ok(Some(log)) };
        bucket.add_log(&log, host::now());
        Ok(Some(bucket))
    }

    /// Returns the bucket in the sliding log of a source.
    fn log(&self, source: &Source) -> Result<Option<Bucket>, Error> {
        if self.control.features & FEATURE_SLIDING_LOGS == 0 {
            return Ok(None);
        }
        match self.tables.logs.open()?.get(source, 0) {
            Err(MapError::KeyNotFound) => Ok(None),
            found => Ok(Some(found.tried("cannot read a log")?.bucket)),
        }
    }

    /// Returns the bucket of a source.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses.
    pub fn bucket(&self, source: &Source) -> Result<Option<Bucket>, Error> {
        match self.tables.buckets.open()?.get(source, 0) {
            Err(MapError::KeyNotFound) => Ok(None),
            found => Ok(Some(found.tried("cannot read a bucket")?)),
        }
    }
}

impl Count {
    const fn and(self, other: Self) -> Self {
        Self {
            packets: self.packets + other.packets,
            shadow: self.shadow || other.shadow,
            estimated: self.estimated || other.estimated,
        }
    }
}
