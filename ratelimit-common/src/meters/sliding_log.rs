//! Sliding log: the times of admitted packets. No window of the given length ever admits more than the limit.
//!
//! A ring holds the last 64 packets. A packet's number selects its place. With a limit of N, a packet is admitted if
//! the packet that was admitted N packets earlier lies a whole window back.
//!
//! One compare-and-exchange writes a packet into the place of its number, so only one of several CPUs succeeds. The
//! count of packets follows. A CPU that finds the count behind moves it on.

/// Packets that a log holds, and the largest limit.
pub const PLACES: u64 = 64;

/// One place: 56 bits of the time in nanoseconds, and above them eight bits of the lap in which it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place(pub u64);

const TIME_BITS: u32 = 56;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;

/// Returns the place of the packet with this number. The first packet has number 0.
#[inline(always)]
#[must_use]
pub const fn place(number: u64) -> u32 {
    (number % PLACES) as u32
}

impl Place {
    /// Creates the place of a packet that arrived at `now`. Its time is at least that of the packet `before`.
    #[inline(always)]
    #[must_use]
    pub const fn new(number: u64, now: u64, before: Option<Self>) -> Self {
        let time = match before {
            Some(before) if before.age(now) == 0 => before.0,
            _ => now,
        };
        Self(lap(number) << TIME_BITS | time & TIME_MASK)
    }

    /// Returns whether it holds the packet with this number.
    #[inline(always)]
    #[must_use]
    pub const fn is_of(self, number: u64) -> bool {
        self.0 >> TIME_BITS == lap(number)
    }

    /// Returns the nanoseconds from its time to `now`; 0 if another CPU's clock was ahead. Times wrap after 834 days,
    /// and differ up to half of that.
    #[inline(always)]
    #[must_use]
    pub const fn age(self, now: u64) -> u64 {
        let age = now.wrapping_sub(self.0) & TIME_MASK;
        if age < 1 << (TIME_BITS - 1) { age } else { 0 }
    }
}

/// Returns the lap of the packet with this number. No lap of the first round is that of an empty place.
#[inline(always)]
const fn lap(number: u64) -> u64 {
    (number / PLACES + 1) & (u64::MAX >> TIME_BITS)
}

/// Returns the number of the packet that must lie a whole window back, so that the packet `number` is admitted; `None`
/// if there are fewer.
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
