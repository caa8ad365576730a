//! Packet verdicts by interface, if the program runs on several.

use crate::{
    boundary,
    reason::{Count, REASONS},
};

/// Places for interfaces.
pub const PLACES: usize = 64;
/// Number of places that an interface can have, one behind the other.
pub const TRIES: u32 = 4;
/// Place of all interfaces without a place of their own, because others hold theirs.
pub const OTHERS: u32 = PLACES as u32;

/// Packets and bytes by reason, and separately those that passed in shadow.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Packets by the reason to pass or to drop them.
    pub done: [Count; REASONS],
    /// Packets that passed in shadow, by the reason of their refusal.
    pub shadow: [Count; REASONS],
}
boundary!(Counts, size 32 * REASONS);

/// Places of the interfaces, and the assignment of counts to them.
///
/// While one interface is attached, the program counts in one map for all, and [`Self::alone`] names the interface.
/// While there are several, the program counts nothing there, so the user side can settle that map.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ledger {
    /// Index of the interface that has this place, attached or not; 0 if no interface had it yet.
    pub interfaces: [u32; PLACES],
    /// Place of the interface that was attached alone last, plus 1. Counts beyond [`Self::settled`] are its own. 0
    /// means no interface.
    pub alone: u32,
    /// Zero.
    pub reserved: u32,
    /// Counts of interfaces that were attached alone, which are included in [`Self::offsets`].
    pub settled: Counts,
    /// Differences that turn the counts of a place into those of its interface, wrapping; the last is for [`OTHERS`].
    pub offsets: [Counts; PLACES + 1],
}
boundary!(Ledger, size 4 * PLACES + 8 + (PLACES + 2) * size_of::<Counts>());

impl Counts {
    /// Returns each count plus the other's, wrapping.
    #[must_use]
    pub fn plus(self, other: &Self) -> Self {
        self.with(other, u64::wrapping_add)
    }

    /// Returns each count minus the other's, wrapping.
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
    /// Returns the place of an interface at this attempt.
    #[inline(always)]
    #[must_use]
    pub const fn place(interface: u32, attempt: u32) -> u32 {
        interface.wrapping_add(attempt) % PLACES as u32
    }

    /// Returns whether an interface has its place at this attempt.
    #[inline(always)]
    #[must_use]
    pub const fn has(&self, interface: u32, attempt: u32) -> bool {
        self.interfaces[Self::place(interface, attempt) as usize] == interface
    }
}
