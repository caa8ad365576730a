//! The front: what many sources share.

use crate::boundary;

/// One entry of the map of cells: one cache line, since all that a packet asks is read together.
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
    /// Packets of the source in the note that were dropped by it and are not in its bucket yet.
    pub dropped_packets: u64,
    /// Bytes of these.
    pub dropped_bytes: u64,
    /// Two sources that are remembered. See [`crate::regular`].
    pub regulars: [u64; 2],
}
boundary!(Cell, size 64);

/// The cell of the source with this hash; `cells` is a power of two.
#[inline(always)]
#[must_use]
pub const fn index(hash: u64, cells: u32) -> u32 {
    hash as u32 & cells.wrapping_sub(1)
}
