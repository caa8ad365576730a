//! A cell: a small shared state in front of many sources' buckets.
//!
//! A cell is one cache line of 64 bytes. Cells of half a line with the rest elsewhere were slower.

use crate::{boundary, cells::cached_refusal::CachedRefusal};

/// One entry of the map of cells. A packet reads all of it together.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cell {
    /// Level of packets. See [`crate::meters::stages`].
    pub packets: u64,
    /// Level of bytes, and of second limits of packets.
    pub second: u64,
    /// Cached refusals of two sources. With `--unknown` there is one, and [`Self::known`] takes the place of the other.
    pub refusals: [RefusalSlot; 2],
    /// Filters of buckets: of even and of odd epochs. See [`crate::cells::bucket_filter`].
    pub filters: [u64; 2],
}
boundary!(Cell, size 64);

/// Place for a cached refusal.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RefusalSlot {
    /// [`CachedRefusal::until`].
    pub until: u64,
    /// [`CachedRefusal::check`].
    pub check: u64,
}

impl Cell {
    /// Returns the words of two known sources, where unknown sources are limited. See [`crate::cells::known_source`].
    #[must_use]
    pub const fn known(&self) -> [u64; 2] {
        [self.refusals[1].until, self.refusals[1].check]
    }
}

impl RefusalSlot {
    /// Returns the cached refusal.
    #[must_use]
    pub const fn refusal(&self) -> CachedRefusal {
        CachedRefusal { until: self.until, check: self.check }
    }
}

/// Returns the index of the cell for this hash. `cells` is a power of two.
#[inline(always)]
#[must_use]
pub const fn index(hash: u64, cells: u32) -> u32 {
    hash as u32 & cells.wrapping_sub(1)
}
