//! The levels of limits, in cells or in a [lane](levels).

use aya_ebpf::{btf_maps::Array, macros::btf_map};
use ratelimit_common::{
    maps::levels,
    meters::{gcra::Units, stages},
};

use crate::bpf::{atomic::Word, clock::Clock, map_flags::ALIGNED};

/// See [`ratelimit_common::maps::names::LEVELS`].
#[btf_map]
pub static LEVELS: Array<Levels, { levels::LEVELS_MAX as usize }, ALIGNED> = Array::new();

/// [`levels::Levels`], which the CPUs share.
#[repr(C)]
pub struct Levels {
    /// Level of packets.
    pub packets: Word,
    /// Level of bytes, and of second limits of packets.
    pub second: Word,
}
const _: () = assert!(size_of::<Levels>() == size_of::<levels::Levels>());

/// Returns the levels of the source with this hash in a lane from 1 on.
#[inline(always)]
#[must_use]
pub fn in_lane(lane: u32, hash: u64) -> Option<&'static Levels> {
    LEVELS.get(levels::index(lane, hash))
}

/// Returns the debt of a level.
#[inline(always)]
pub fn debt(level: &Word, clock: &Clock<'_>) -> Units {
    stages::level_debt(level.load(), clock.units(), clock.largest_debt())
}
