//! The sliding log: the times of the packets that a source was admitted, so that no window of the given length ever admits more than the limit.
//!
//! The last 64 packets have a place each in a ring; a packet's number finds it. With a limit of N, a packet is admitted if the one that was
//! admitted N packets before it lies a whole window back. One compare-and-exchange puts a packet into the place of its number, so of many
//! CPUs one wins; the count of packets follows, and whoever finds it behind moves it on.

use crate::{boundary, buckets::bucket::Bucket};

/// Packets that are remembered, and the largest limit.
pub const PLACES: u64 = 64;

/// One entry of the map of logs: a bucket that counts as any other, and the log.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Log {
    /// What passed and was dropped. Its states are not used.
    pub bucket: Bucket,
    /// How many packets were admitted.
    pub admitted: u64,
    /// Of the last ones, when. See [`Place`].
    pub places: [u64; PLACES as usize],
}
boundary!(Log, size 576);

/// One place: 56 bits of the time in nanoseconds, and above them eight bits of the lap in which it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place(pub u64);

const TIME_BITS: u32 = 56;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;

/// The place of the packet of this number, the first one being 0.
#[inline(always)]
#[must_use]
pub const fn place(number: u64) -> u32 {
    (number % PLACES) as u32
}

impl Place {
    /// Where the packet of this number is written that came at `now`, behind one that came at the time of `before`: times never go back.
    #[inline(always)]
    #[must_use]
    pub const fn new(number: u64, now: u64, before: Option<Self>) -> Self {
        let time = match before {
            Some(before) if before.age(now) == 0 => before.0,
            _ => now,
        };
        Self(lap(number) << TIME_BITS | time & TIME_MASK)
    }

    /// Whether it holds the packet of this number.
    #[inline(always)]
    #[must_use]
    pub const fn is_of(self, number: u64) -> bool {
        self.0 >> TIME_BITS == lap(number)
    }

    /// Nanoseconds from its time to `now`; 0 if another CPU's clock was ahead. Times go around after 834 days, and are told apart up to
    /// half of that.
    #[inline(always)]
    #[must_use]
    pub const fn age(self, now: u64) -> u64 {
        let age = now.wrapping_sub(self.0) & TIME_MASK;
        if age < 1 << (TIME_BITS - 1) { age } else { 0 }
    }
}

/// The lap of the packet of this number. An empty place is of no lap's first round.
#[inline(always)]
const fn lap(number: u64) -> u64 {
    (number / PLACES + 1) & (u64::MAX >> TIME_BITS)
}

/// The number of the packet that must lie a whole window back for the packet `number` to be admitted; none if there are fewer.
#[inline(always)]
#[must_use]
pub const fn decisive(number: u64, limit: u64) -> Option<u64> {
    number.checked_sub(limit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_place_holds_one_packet(number in 0u64..1 << 40, now in 0u64..1 << 55, age in 0u64..1 << 50) {
            let place = Place::new(number, now, None);
            prop_assert!(place.is_of(number));
            prop_assert!(!place.is_of(number + PLACES));
            prop_assert!(number < PLACES || !place.is_of(number - PLACES));
            prop_assert_eq!(place.age(now + age), age);
            prop_assert_eq!(place.age(now.saturating_sub(age + 1)), 0);
        }

        #[test]
        fn times_never_go_back(number in 1u64..1 << 40, first in 0u64..1 << 55, second in 0u64..1 << 55) {
            let one = Place::new(number - 1, first, None);
            let two = Place::new(number, second, Some(one));
            prop_assert_eq!(two.age(first.max(second)), 0);
            prop_assert!(two.is_of(number));
        }

        #[test]
        fn an_empty_place_is_no_packets(number in 0u64..PLACES * 254) {
            prop_assert!(!Place(0).is_of(number));
        }
    }
}
