//! Levels of limits other than the default. Each limit has a lane of its own, so no limit charges another's level.
//!
//! A level is time. One packet of a slow limit charges seconds, which fill the share of every faster limit. So the
//! levels within cells belong to the default limit alone. Every other limit charges the levels of its lane. If there
//! are many limits, only those of similar speed share a lane.

use crate::boundary;

/// Lanes. Number 0 is the levels within cells.
pub const LANES: u32 = 32;

/// Levels of one lane, a power of two.
pub const LANE_LEVELS: u32 = 1 << 14;

/// Entries of the map of levels.
pub const LEVELS_MAX: u32 = (LANES - 1) * LANE_LEVELS;

/// The levels of one cell, or one entry of a lane.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Levels {
    /// Level of packets. See [`crate::meters::stages`].
    pub packets: u64,
    /// Level of bytes, and of second limits of packets.
    pub second: u64,
}
boundary!(Levels, size 16);

/// Returns the index of the entry for this hash in a lane from 1 on.
#[inline(always)]
#[must_use]
pub const fn index(lane: u32, hash: u64) -> u32 {
    ((lane & (LANES - 1)).wrapping_sub(1) * LANE_LEVELS) | (hash as u32 & (LANE_LEVELS - 1))
}
