//! Events: a few words each, in an array that is written round and round. Each reader keeps its own position. So there
//! can be many readers, and they cost a packet nothing.

use crate::{boundary, identity::source::Source};

/// One place of the array.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// 1 for the first event, and so on; 0 while it is written.
    pub number: u64,
    /// Nanoseconds of the monotonic clock.
    pub time: u64,
    /// Source of the event.
    pub source: Source,
    /// For [`BANNED`], the end in nanoseconds of the monotonic clock.
    pub until: u64,
    /// Packets that the source's bucket had counted as dropped before.
    pub dropped: u64,
    /// [`REFUSED`], [`SHADOWED`] or [`BANNED`].
    pub kind: u32,
    /// Number of the [reason](crate::reason::Reason).
    pub reason: u32,
}
boundary!(Event, size 64);

/// [`Event::kind`]: a limit has refused the source for the first time in [`QUIET`]. A source that shares its cell with
/// several refused ones may have more.
pub const REFUSED: u32 = 1;
/// [`Event::kind`]: the source was banned.
pub const BANNED: u32 = 2;
/// [`Event::kind`]: like [`REFUSED`], but the packets pass in [shadow](crate::limits::policy::SHADOW).
pub const SHADOWED: u32 = 3;

/// Places of the array.
pub const PLACES: u32 = 4_096;
/// Events per second, all CPUs and sources together. Further events are only counted.
pub const PER_SECOND: u64 = 100;
/// Nanoseconds without a refusal after which a source causes an event again.
pub const QUIET: u64 = 10_000_000_000;
/// Number of refusals for one event, if a source has no cached refusal.
pub const SAMPLE: u64 = 1_024;

/// Numbers of the array as a whole.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Written {
    /// Number of the last event.
    pub events: u64,
    /// Events that were left out, because there were more than [`PER_SECOND`].
    pub left_out: u64,
    /// State of that budget. See [`crate::meters::gcra`].
    pub budget: u64,
    /// Zero.
    pub reserved: u64,
}
boundary!(Written, size 32);

/// Returns the place of an event.
#[inline(always)]
#[must_use]
pub const fn place(number: u64) -> u32 {
    number as u32 & (PLACES - 1)
}

impl Event {
    /// Returns [`Self::kind`] and [`Self::reason`] as one word, as they lie in memory.
    #[inline(always)]
    #[must_use]
    pub const fn kind_and_reason(kind: u32, reason: u32) -> u64 {
        // SAFETY: as many bytes, and any bytes are a word.
        unsafe { core::mem::transmute([kind, reason]) }
    }
}
