//! How often a source was dropped of late, and banned: two words, in an entry of the map of buckets that is none of a source's.

use crate::limits::policy::Ban;

/// Nanoseconds within which [`Ban::after`] packets must be dropped: a minute.
const MINUTE: u64 = 60_000_000_000;

/// Drops since the first of a minute: 24 bits of how many, above 40 of when it began, in steps of 2²⁴ ns (17 ms).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drops(pub u64);

const COUNT_SHIFT: u32 = 40;
const STEP_BITS: u32 = 24;
const TIME_MASK: u64 = (1 << COUNT_SHIFT) - 1;
/// The most that [`Ban::after`] can be.
pub const MOST_DROPS: u32 = (1 << 24) - 1;

impl Drops {
    /// One more, at `now` in nanoseconds. A minute begins with the first drop that is in none.
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

    /// Whether so many are enough.
    #[inline(always)]
    #[must_use]
    pub const fn are_enough(self, ban: &Ban) -> bool {
        self.0 >> COUNT_SHIFT >= ban.after as u64
    }
}

/// The last ban: when it ends, in steps of 2²⁴ ns, above eight bits of how often its time was doubled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastBan(pub u64);

const DOUBLED_BITS: u32 = 8;
const MOST_DOUBLED: u64 = 40;
/// Nanoseconds for which CPUs may still be at the packets that a ban comes from: three steps.
const SAME_OFFENCE: u64 = 50_000_000;

impl LastBan {
    /// The next ban, at `now`, and for how long. One that has just begun goes on: several CPUs see the same offence. Whoever
    /// is banned again within [`Ban::most`] after the last one ended has its time doubled, up to that; others begin anew.
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

/// The time of a ban that was doubled so often.
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
