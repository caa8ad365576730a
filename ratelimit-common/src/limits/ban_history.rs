//! The recent drops and bans of a source: two words in an entry of the map of buckets, which is not the source's own
//! bucket.

use crate::limits::policy::Ban;

/// Nanoseconds within which [`Ban::after`] packets must be dropped: a minute.
const MINUTE: u64 = 60_000_000_000;

/// Drops within a minute: 24 bits of their number, above 40 bits of the minute's begin in steps of 2²⁴ ns (17 ms).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drops(pub u64);

const COUNT_SHIFT: u32 = 40;
const STEP_BITS: u32 = 24;
const TIME_MASK: u64 = (1 << COUNT_SHIFT) - 1;
/// Largest value of [`Ban::after`].
pub const MOST_DROPS: u32 = (1 << 24) - 1;

impl Drops {
    /// Returns the drops with one more at `now`, in nanoseconds. A drop outside of a minute begins a new one.
    #[inline(always)]
    #[must_use]
    pub const fn one_more(self, now: u64) -> Self {
        let (now, begin) = (now >> STEP_BITS, self.0 & TIME_MASK);
        let count = self.0 >> COUNT_SHIFT;
        let is_within = count != 0 && now.wrapping_sub(begin) & TIME_MASK < MINUTE >> STEP_BITS;
        if !is_within {
            return Self(1 << COUNT_SHIFT | now & TIME_MASK);
        }
        let count = if count < MOST_DROPS as u64 { count + 1 } else { count };
        Self(count << COUNT_SHIFT | begin)
    }

    /// Returns whether there are enough drops for a ban.
    #[inline(always)]
    #[must_use]
    pub const fn are_enough(self, ban: &Ban) -> bool {
        self.0 >> COUNT_SHIFT >= ban.after as u64
    }
}

/// The last ban: its end in steps of 2²⁴ ns, above eight bits that count how often its time was doubled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastBan(pub u64);

const DOUBLED_BITS: u32 = 8;
const MOST_DOUBLED: u64 = 40;
/// Nanoseconds after a ban's begin in which other CPUs may still see the same offence: three steps.
const SAME_OFFENCE: u64 = 50_000_000;

impl LastBan {
    /// Returns the last ban with this end in nanoseconds, whose time was doubled so often. The end is rounded down.
    #[must_use]
    pub const fn until(end: u64, doubled: u8) -> Self {
        let doubled = if (doubled as u64) < MOST_DOUBLED { doubled as u64 } else { MOST_DOUBLED };
        Self(end >> STEP_BITS << DOUBLED_BITS | doubled)
    }

    /// Returns how often the time of the ban was doubled.
    #[must_use]
    pub const fn doubled(self) -> u8 {
        self.0 as u8
    }

    /// Returns the next ban at `now`, and its nanoseconds. A ban that has just begun continues, since several CPUs see
    /// the same offence. If the last ban ended less than [`Ban::most`] ago, the time doubles, up to that. Otherwise it
    /// starts anew.
    #[inline(always)]
    #[must_use]
    pub const fn next(self, ban: &Ban, now: u64) -> (Self, u64) {
        let (ended, doubled) = (self.0 >> DOUBLED_BITS << STEP_BITS, self.0 & ((1 << DOUBLED_BITS) - 1));
        let began = ended.saturating_sub(length(ban, doubled));
        if self.0 != 0 && now >= began && now < ended && now - began < SAME_OFFENCE {
            return (self, ended - now);
        }
        let is_repeated = self.0 != 0 && now < ended.saturating_add(ban.most);
        let doubled = match is_repeated {
            true if doubled < MOST_DOUBLED => doubled + 1,
            true => MOST_DOUBLED,
            false => 0,
        };
        let time = length(ban, doubled);
        (Self(now.saturating_add(time) >> STEP_BITS << DOUBLED_BITS | doubled), time)
    }
}

/// Returns the time of a ban that was doubled so many times.
#[inline(always)]
const fn length(ban: &Ban, doubled: u64) -> u64 {
    let doubled = doubled & 63;
    if ban.time < ban.most >> doubled { ban.time << doubled } else { ban.most }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BAN: Ban = Ban { time: 10 * MINUTE, most: 60 * MINUTE, after: 5, reserved: 0 };

    proptest! {
        #[test]
        fn enough_are_those_of_a_minute(start in 0u64..1 << 60, gap in 0u64..20_000_000_000) {
            let mut drops = Drops(0);
            for number in 0..5 {
                prop_assert!(!drops.are_enough(&BAN));
                drops = drops.one_more(start + number * gap);
            }
            // Told apart within a step.
            let (took, step) = (4 * gap, 1 << STEP_BITS);
            prop_assume!(took.abs_diff(MINUTE) > 2 * step);
            prop_assert_eq!(drops.are_enough(&BAN), took < MINUTE);
        }

        #[test]
        fn a_ban_is_never_longer_than_the_most(last: u64, now in 0u64..1 << 62) {
            let (_, time) = LastBan(last).next(&BAN, now);
            prop_assert!(time > 0 && time <= BAN.most);
        }
    }

    #[test]
    fn a_ban_that_is_written_again_is_doubled_as_before() {
        let second = LastBan(0).next(&BAN, MINUTE).0.next(&BAN, 15 * MINUTE).0;
        let again = LastBan::until(35 * MINUTE, second.doubled());
        assert_eq!((second.doubled(), again), (1, second));
        assert_eq!(again.next(&BAN, 40 * MINUTE).1, second.next(&BAN, 40 * MINUTE).1);
        assert_eq!(u64::from(LastBan::until(0, u8::MAX).doubled()), MOST_DOUBLED);
    }

    #[test]
    fn the_time_doubles_up_to_the_most_and_is_forgiven() {
        let (mut last, mut now, mut times) = (LastBan(0), MINUTE, [0; 5]);
        for time in &mut times {
            (last, *time) = last.next(&BAN, now);
            now += *time + MINUTE;
        }
        assert_eq!(times.map(|time| time / MINUTE), [10, 20, 40, 60, 60]);
        let (again, time) = last.next(&BAN, now + BAN.most);
        assert_eq!(time, BAN.time);
        // The same offence, as another CPU sees it a moment later; and one after an operator has lifted the ban.
        let (same, left) = again.next(&BAN, now + BAN.most + 1_000);
        assert_eq!((same, left.div_ceil(MINUTE)), (again, 10));
        assert_eq!(again.next(&BAN, now + BAN.most + MINUTE).1, 2 * BAN.time);
    }
}
