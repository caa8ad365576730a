//! The front: what many sources share.

use crate::boundary;

/// One entry of the map of cells. Two lie in a cache line, and none across.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cell {
    /// Level of packets. See [`crate::stages`].
    pub packets: u64,
    /// Level of bytes.
    pub bytes: u64,
    /// [`Note::until`](crate::note::Note::until).
    pub until: u64,
    /// [`Note::check`](crate::note::Note::check).
    pub check: u64,
}
boundary!(Cell, size 32);

/// What goes with a cell and is not read for every packet.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Memory {
    /// Packets of the source in the cell's note that were dropped by it and are not in its bucket yet.
    pub dropped_packets: u64,
    /// Bytes of these.
    pub dropped_bytes: u64,
    /// Two sources that are remembered. See [`crate::regular`].
    pub regulars: [u64; 2],
}
boundary!(Memory, size 32);

/// The cell of the source with this hash; `cells` is a power of two.
#[inline(always)]
#[must_use]
pub const fn index(hash: u64, cells: u32) -> u32 {
    hash as u32 & cells.wrapping_sub(1)
}
