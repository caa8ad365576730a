//! What became of packets by interface, where the program runs on several.

use crate::{
    boundary,
    reason::{Count, REASONS},
};

/// Places for interfaces.
pub const PLACES: usize = 64;
/// Places that an interface can have, one behind the other.
pub const TRIES: u32 = 4;
/// Where all those are counted that have none: the places were others'.
pub const OTHERS: u32 = PLACES as u32;

/// Packets and bytes by reason: what was done, and apart from that what passed in shadow.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// By why they passed or were dropped.
    pub done: [Count; REASONS],
    /// By what would have become of them.
    pub shadow: [Count; REASONS],
}
boundary!(Counts, size 32 * REASONS);

/// Which interface has which place, and what of each count is whose.
///
/// While one interface is attached, the program counts in one map as if there were no others, and [`Self::alone`] says whose that is. While there are several,
/// it counts nothing there, so that it can be settled in peace.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ledger {
    /// Index of the interface that has this place, attached or not; 0 where none had it yet.
    pub interfaces: [u32; PLACES],
    /// The place of the interface that was attached alone last, and 1: what is counted beyond [`Self::settled`] is its. 0 for nobody's.
    pub alone: u32,
    /// Zero.
    pub reserved: u32,
    /// What was counted while interfaces were attached alone and is in [`Self::offsets`].
    pub settled: Counts,
    /// What is added to the counts of a place, wrapping, to make them those of its interface; the last is for [`OTHERS`].
    pub offsets: [Counts; PLACES + 1],
}
boundary!(Ledger, size 4 * PLACES + 8 + (PLACES + 2) * size_of::<Counts>());

impl Counts {
    /// Each count and the other's, wrapping.
    #[must_use]
    pub fn plus(self, other: &Self) -> Self {
        self.with(other, u64::wrapping_add)
    }

    /// Each count without the other's, wrapping.
    #[must_use]
    pub fn minus(self, other: &Self) -> Self {
        self.with(other, u64::wrapping_sub)
    }

    fn with(mut self, other: &Self, change: fn(u64, u64) -> u64) -> Self {
        let counts = self.done.iter_mut().chain(&mut self.shadow);
        for (count, other) in counts.zip(other.done.iter().chain(&other.shadow)) {
            *count = Count { packets: change(count.packets, other.packets), bytes: change(count.bytes, other.bytes) };
        }
        self
    }
}

impl Ledger {
    /// The place that an interface takes when it is tried for the first time, the second time, and so on.
    #[inline(always)]
    #[must_use]
    pub const fn place(interface: u32, attempt: u32) -> u32 {
        interface.wrapping_add(attempt) % PLACES as u32
    }

    /// Whether an interface has its place at this attempt.
    #[inline(always)]
    #[must_use]
    pub const fn has(&self, interface: u32, attempt: u32) -> bool {
        self.interfaces[Self::place(interface, attempt) as usize] == interface
    }
}
