//! The front: what many sources share.

use crate::{boundary, cells::cached_refusal::Note};

/// One entry of the map of cells: one cache line, since all that a packet asks is read together.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cell {
    /// Level of packets. See [`crate::meters::stages`].
    pub packets: u64,
    /// Level of bytes, and of second limits of packets.
    pub second: u64,
    /// Two sources that are refused. Where unknown sources are limited there is one note, and [`Self::known`] are in the place of the other.
    pub notes: [Noted; 2],
}
boundary!(Cell, size 64);

/// A note with its count.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Noted {
    /// [`Note::until`].
    pub until: u64,
    /// [`Note::check`].
    pub check: u64,
    /// What was dropped by it and is not in the source's bucket yet: [`Dropped`](crate::cells::dropped::Dropped).
    pub dropped: u64,
}

impl Cell {
    /// Two sources that are remembered, where unknown sources are limited. See [`crate::cells::known_source`].
    #[must_use]
    pub const fn known(&self) -> [u64; 2] {
        [self.notes[1].until, self.notes[1].check]
    }
}

impl Noted {
    /// The note.
    #[must_use]
    pub const fn note(&self) -> Note {
        Note { until: self.until, check: self.check }
    }
}

/// The cell of the source with this hash; `cells` is a power of two.
#[inline(always)]
#[must_use]
pub const fn index(hash: u64, cells: u32) -> u32 {
    hash as u32 & cells.wrapping_sub(1)
}
