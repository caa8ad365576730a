//! Named lists of addresses and prefixes. A list denies its sources, or limits each of them.
//!
//! A list has two slots, one of which is in force. A command writes the bit of the other slot into the entries, and then
//! switches the slots. Both bits of a list are in one byte of the mask of slots, so no packet sees half of the switch.

use crate::{boundary, limits::policy::PolicyId, rules::rule::NEVER};

/// Lists at a time.
pub const LISTS_MAX: u32 = 32;
/// Slots of all lists, and the bits of a mask of slots.
pub const LIST_SLOTS: u32 = 2 * LISTS_MAX;
/// Bytes of the name of a list.
pub const NAME_BYTES: usize = 32;
/// Bytes of the path of a list's file.
pub const PATH_BYTES: usize = 256;

/// Shortest IPv4 prefix of a list.
pub const SHORTEST_V4: u8 = 8;
/// Shortest IPv6 prefix of a list.
pub const SHORTEST_V6: u8 = 16;

/// A mask of slots: bit *n* is slot *n*.
pub type Slots = u64;

/// One slot. The fields that packets read come first.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct List {
    /// Nanoseconds of the monotonic clock at which the list ends; [`NEVER`] if it stays.
    pub expires: u64,
    /// Of several lists with a source, the lowest rank applies. See [`Self::rank`].
    pub rank: u64,
    /// A digest of the entries, by which the user side finds a list unchanged.
    pub digest: u64,
    /// Policy of the sources on the list.
    pub policy: PolicyId,
    /// Origin of the list: [`COMMAND`](crate::rules::rule::COMMAND) or [`CONFIG`](crate::rules::rule::CONFIG).
    pub origin: u8,
    /// Bytes of the name; 0 if the slot was never used.
    pub name_bytes: u8,
    /// Bytes of the path; 0 if the list comes from no file.
    pub path_bytes: u16,
    /// Entries for single addresses, after duplicates and nested entries.
    pub addresses: u32,
    /// Entries for prefixes.
    pub prefixes: u32,
    /// Name in UTF-8.
    pub name: [u8; NAME_BYTES],
    /// Path of the list's file.
    pub path: [u8; PATH_BYTES],
}
boundary!(List, size 328);

/// [`List::rank`] of lists that limit.
const LIMITS: u64 = 1 << 63;

impl List {
    /// A slot that was never used.
    pub const NONE: Self = Self {
        expires: 0,
        rank: 0,
        digest: 0,
        policy: 0,
        origin: 0,
        name_bytes: 0,
        path_bytes: 0,
        addresses: 0,
        prefixes: 0,
        name: [0; NAME_BYTES],
        path: [0; PATH_BYTES],
    };

    /// Returns the rank of a list that was created at this time in nanoseconds. Lists that deny come first.
    #[must_use]
    pub const fn rank(denies: bool, created: u64) -> u64 {
        if denies { created & !LIMITS } else { created | LIMITS }
    }

    /// Returns whether the list denies its sources.
    #[inline(always)]
    #[must_use]
    pub const fn denies(&self) -> bool {
        self.rank & LIMITS == 0
    }

    /// Returns when the list was created, in nanoseconds of the monotonic clock.
    #[must_use]
    pub const fn created(&self) -> u64 {
        self.rank & !LIMITS
    }

    /// Returns whether the list has ended at `now`.
    #[inline(always)]
    #[must_use]
    pub const fn is_over(&self, now: u64) -> bool {
        self.expires != NEVER && self.expires <= now
    }
}

/// Entry for a prefix.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListedPrefix {
    /// Slots of the lists with the prefix.
    pub slots: Slots,
    /// Bits of the prefix, which a lookup does not return.
    pub prefix: u64,
}
boundary!(ListedPrefix, size 16);

/// Returns the slots of a list by its number.
#[must_use]
pub const fn slots_of(number: u32) -> [u32; 2] {
    [2 * number, 2 * number + 1]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::control::Control;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lists_that_deny_rank_first_and_then_older_ones(one in 0u64..1 << 62, later in 1u64..1 << 61) {
            prop_assert!(List::rank(true, one + later) < List::rank(false, one));
            for denies in [true, false] {
                prop_assert!(List::rank(denies, one) < List::rank(denies, one + later));
                let list = List { rank: List::rank(denies, one), ..List::NONE };
                prop_assert_eq!((list.denies(), list.created()), (denies, one));
            }
        }

        #[test]
        fn planned_lists_act_with_the_next_generation(generation: u32, old: u64, new: u64) {
            let control = Control { generation, lists: [old; 2], ..Control::default() }.with_next_lists(new);
            prop_assert_eq!(control.lists_in(generation), old);
            let next = control.renewed();
            prop_assert_eq!(next.lists_in(next.generation), new);
            // Any other change keeps the lists in force, also if the last step of a change of lists has failed.
            for (control, in_force) in [(control, old), (next, new)] {
                let other = control.with_same_lists().renewed();
                prop_assert_eq!(other.lists_in(other.generation), in_force);
            }
        }
    }

    #[test]
    fn both_slots_of_a_list_are_in_one_byte() {
        for number in 0..LISTS_MAX {
            let [one, other] = slots_of(number);
            assert!(one / 8 == other / 8 && other < LIST_SLOTS);
        }
    }
}
