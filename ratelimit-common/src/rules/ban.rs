//! The table of bans: sets of eight places, in an array.
//!
//! A place is free from the moment at which its ban ends. So nothing has to remove a ban, and a ban finds no place only
//! while others in force have all that it could take. A ban in force never gives way.
//!
//! A keyed hash of the source selects two sets. A new ban goes into the one with fewer bans, so that all sets fill
//! evenly. The hash is secret, so no sender can aim at the sets of another source.
//!
//! A filter in front of the table has the latest end of a ban for each group of sources. A keyed hash selects the group,
//! so a banned source does not slow its neighbours. The filter expires by itself too.

use crate::{
    boundary,
    identity::source::Source,
    limits::policy::BANNED_ID,
    maps::names::{BAN_GROUPS, BAN_SETS, BANS_OF_A_SET},
    rules::rule::{BANNED, Covered, Rule},
};

/// Places of a set.
pub const PLACES: usize = BANS_OF_A_SET as usize;

/// One entry of the map of bans.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BanSet {
    /// [`BanEnd`] of each place.
    pub ends: [u64; PLACES],
    /// Source of each place.
    pub sources: [Source; PLACES],
}
boundary!(BanSet, size 256);

/// End of a ban, and a part of its source's hash, in one word: 49 bits of the end in steps of 512 ns, above 15 bits of
/// the hash. So a place has changed whenever its word has, and a source never meets the end of another source's ban.
///
/// Zero is a place that was never used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BanEnd(pub u64);

const STEP_BITS: u32 = 9;
const HASH_BITS: u32 = 15;
const HASH_MASK: u64 = (1 << HASH_BITS) - 1;
const LATEST: u64 = u64::MAX >> HASH_BITS;

/// Nanoseconds that no ban exceeds: nine years.
pub const LONGEST: u64 = LATEST << STEP_BITS;

/// Nanoseconds for which a place is kept while its source is written.
const WRITING: u64 = 1_000_000_000;

impl BanEnd {
    /// Returns the end of a ban of the source with this hash, in nanoseconds, rounded up to the next step.
    #[inline(always)]
    #[must_use]
    pub const fn new(hash: u64, expires: u64) -> Self {
        let steps = (expires >> STEP_BITS) + (expires & ((1 << STEP_BITS) - 1) != 0) as u64;
        Self((if steps < LATEST { steps } else { LATEST }) << HASH_BITS | check(hash))
    }

    /// Returns the word of a place whose source is being written at `now`. It is no source's.
    #[inline(always)]
    #[must_use]
    pub const fn being_written(now: u64) -> Self {
        Self(Self::new(0, now.saturating_add(WRITING)).0 & !HASH_MASK)
    }

    /// Returns the end of the same ban, sooner by so many nanoseconds.
    #[must_use]
    pub const fn sooner(self, by: u64) -> Self {
        let steps = (self.0 >> HASH_BITS).saturating_sub(by >> STEP_BITS);
        Self((if steps == 0 { 1 } else { steps }) << HASH_BITS | self.0 & HASH_MASK)
    }

    /// Returns whether the place is in use at `now`, in nanoseconds.
    #[inline(always)]
    #[must_use]
    pub const fn is_in_force(self, now: u64) -> bool {
        now >> STEP_BITS < self.0 >> HASH_BITS
    }

    /// Returns whether the source can have this hash.
    #[inline(always)]
    #[must_use]
    pub const fn may_be_of(self, hash: u64) -> bool {
        self.0 & HASH_MASK == check(hash)
    }

    /// Returns whether the place has a source, whether its ban has ended or not.
    #[must_use]
    pub const fn has_source(self) -> bool {
        self.0 & HASH_MASK != 0
    }

    /// Returns the nanoseconds at which the ban ends.
    #[inline(always)]
    #[must_use]
    pub const fn expires(self) -> u64 {
        self.0 >> HASH_BITS << STEP_BITS
    }

    /// Returns this word if the ban ends later than in the other one, which may have the same source.
    #[inline(always)]
    #[must_use]
    pub const fn if_later_than(self, other: u64) -> Option<u64> {
        let is_of_other_source = (self.0 ^ other) & HASH_MASK != 0;
        if is_of_other_source || self.0 >> HASH_BITS <= other >> HASH_BITS { None } else { Some(self.0) }
    }
}

/// Bits of the hash that no index uses. They are never zero.
#[inline(always)]
const fn check(hash: u64) -> u64 {
    hash >> (64 - HASH_BITS) | 1
}

/// Returns the rule of a ban of this source.
#[inline(always)]
#[must_use]
pub const fn rule(source: &Source, expires: u64) -> Rule {
    Rule { policy: BANNED_ID, prefix: source.prefix, origin: BANNED, covered: Covered::NONE, expires }
}

/// Returns the two sets of the source with this hash, from bits that select neither its cell nor its group.
#[inline(always)]
#[must_use]
pub const fn sets(hash: u64) -> [u32; 2] {
    [(hash >> 20) as u32 & (BAN_SETS - 1), (hash >> 33) as u32 & (BAN_SETS - 1)]
}

/// Returns the group of a source, from its hash without a class. So a packet reads one group for all its services.
#[inline(always)]
#[must_use]
pub const fn group(hash: u64) -> u32 {
    hash as u32 & (BAN_GROUPS - 1)
}

/// One entry of the filter: the latest end of a ban in the group as in a [`BanEnd`], and in the lowest bit whether one
/// of these bans is in its source's second set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group(pub u64);

const SECOND_SET: u64 = 1;

impl Group {
    /// Returns whether a source of the group may be banned at `now`, in nanoseconds.
    #[inline(always)]
    #[must_use]
    pub const fn may_have_bans(self, now: u64) -> bool {
        BanEnd(self.0).is_in_force(now)
    }

    /// Returns whether a ban may be in its source's second set.
    #[inline(always)]
    #[must_use]
    pub const fn uses_second_sets(self) -> bool {
        self.0 & SECOND_SET != 0
    }

    /// Returns the group after a new ban at `now`, in its source's second set or not. None if it stays the same.
    #[inline(always)]
    #[must_use]
    pub const fn with(self, end: BanEnd, is_in_second: bool, now: u64) -> Option<Self> {
        let before = if self.may_have_bans(now) { self.0 } else { 0 };
        let (seen, new) = (before >> HASH_BITS, end.0 >> HASH_BITS);
        let flag = if is_in_second { SECOND_SET } else { before & SECOND_SET };
        let after = (if new > seen { new } else { seen }) << HASH_BITS | flag;
        if after == self.0 { None } else { Some(Self(after)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;

    proptest! {
        #[test]
        fn a_ban_is_in_force_until_its_end_for_its_source_alone(
            hash: u64, other: u64, now in 0u64..1 << 57, time in 1u64..1 << 56,
        ) {
            let (expires, end) = (now + time, BanEnd::new(hash, now + time));
            prop_assert!(end.is_in_force(now) && end.is_in_force(expires - 1));
            prop_assert!(!end.is_in_force(expires + 512));
            prop_assert!((expires..expires + 512).contains(&end.expires()));
            prop_assert_eq!((end.may_be_of(hash), end.may_be_of(other)), (true, check(hash) == check(other)));
            let writing = BanEnd::being_written(now);
            prop_assert!(writing.is_in_force(now) && !writing.may_be_of(other) && !writing.has_source());
        }

        #[test]
        fn a_group_has_bans_until_the_latest_of_them_ends(times in prop::collection::vec(1u64..100, 1..9)) {
            let mut group = Group(0);
            for time in &times {
                group = group.with(BanEnd::new(u64::MAX, time * SECOND), false, 0).unwrap_or(group);
            }
            let latest = times.iter().max().unwrap() * SECOND;
            prop_assert!(group.may_have_bans(latest - 1) && !group.may_have_bans(latest));
            prop_assert!(!group.uses_second_sets());
        }
    }

    #[test]
    fn bans_of_whole_seconds_end_exactly() {
        for seconds in [1, 600, 86_400 * 365] {
            assert_eq!(BanEnd::new(7, seconds * SECOND).expires(), seconds * SECOND);
        }
        let endless = BanEnd::new(u64::MAX, u64::MAX);
        assert!(endless.is_in_force(1 << 57) && endless.may_be_of(u64::MAX));
    }

    #[test]
    fn a_ban_that_ends_sooner_is_still_of_its_source() {
        let end = BanEnd::new(7, 100 * SECOND);
        assert_eq!(end.sooner(60 * SECOND), BanEnd::new(7, 40 * SECOND));
        let over = end.sooner(200 * SECOND);
        assert!(over.has_source() && over.may_be_of(7) && !over.is_in_force(SECOND));
    }

    #[test]
    fn a_group_forgets_second_sets_with_its_bans() {
        let end = |seconds| BanEnd::new(7, seconds * SECOND);
        let group = Group(0).with(end(10), true, 0).unwrap();
        let group = group.with(end(20), false, 5 * SECOND).unwrap();
        assert!(group.uses_second_sets() && group.with(end(15), false, 5 * SECOND).is_none());
        assert!(!group.with(end(40), false, 20 * SECOND).unwrap().uses_second_sets());
    }

    #[test]
    fn a_later_end_replaces_only_an_earlier_one_of_its_source() {
        let [early, late] = [10, 20].map(|seconds| BanEnd::new(7, seconds * SECOND));
        assert_eq!((late.if_later_than(early.0), early.if_later_than(late.0)), (Some(late.0), None));
        let other = BanEnd::new(u64::MAX, 10 * SECOND);
        assert_eq!(late.if_later_than(other.0), None);
    }
}
