//! What the program tells of as it happens: a few words in an array that is written round and round. Whoever reads it keeps a position of his own, so
//! that many can, and nobody's reading costs a packet anything.

use crate::{boundary, identity::source::Source};

/// One place of the array.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// 1 for the first event, and so on; 0 while it is written.
    pub number: u64,
    /// Nanoseconds of the monotonic clock.
    pub time: u64,
    /// Whom it is about.
    pub source: Source,
    /// For [`BANNED`], nanoseconds of the monotonic clock at which that ends.
    pub until: u64,
    /// Packets that its bucket had counted as dropped before.
    pub dropped: u64,
    /// [`REFUSED`], [`SHADOWED`] or [`BANNED`].
    pub kind: u32,
    /// Number of the [reason](crate::reason::Reason).
    pub reason: u32,
}
boundary!(Event, size 64);

/// [`Event::kind`]: a limit has refused the source, which it had not done for [`QUIET`]. Of one that shares its cell with several others, there may be
/// more.
pub const REFUSED: u32 = 1;
/// [`Event::kind`]: the source was banned.
pub const BANNED: u32 = 2;
/// [`Event::kind`]: as [`REFUSED`], and its packets pass all the same, in [shadow](crate::limits::policy::SHADOW).
pub const SHADOWED: u32 = 3;

/// Places of the array.
pub const PLACES: u32 = 4_096;
/// Events per second, all CPUs and sources together. What is beyond is counted, and told by nobody.
pub const PER_SECOND: u64 = 100;
/// Nanoseconds for which a source was not refused that is told of again.
pub const QUIET: u64 = 10_000_000_000;
/// Of a source that no note remembers, one of so many refusals is told of.
pub const SAMPLE: u64 = 1_024;

/// What there is of the array as a whole.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Written {
    /// Events so far: the number of the last one.
    pub events: u64,
    /// Events that were left out, because there were more than [`PER_SECOND`].
    pub left_out: u64,
    /// State of that budget. See [`crate::meters::gcra`].
    pub budget: u64,
    /// Zero.
    pub reserved: u64,
}
boundary!(Written, size 32);

/// Where an event is kept.
#[inline(always)]
#[must_use]
pub const fn place(number: u64) -> u32 {
    number as u32 & (PLACES - 1)
}

impl Event {
    /// As words, as they lie in memory.
    #[inline(always)]
    #[must_use]
    pub const fn words(self) -> [u64; 8] {
        // SAFETY: as many bytes, none of them padding, and any bytes are words.
        unsafe { core::mem::transmute(self) }
    }
}
