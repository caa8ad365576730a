//! Which packets that cached refusals refuse are counted in the buckets of their sources.
//!
//! A cached refusal is only read, so that CPUs share it without waiting. Its source's bucket counts in its place: each
//! packet while a CPU repeats few refusals, and one of [`RATE`] for all of them during a flood.

/// Packets for one sample.
pub const RATE: u64 = 64;
/// Packets of a [period](PERIOD_SHIFT) and CPU that are counted one by one.
pub const EXACT: u64 = 1 << 15;

/// Binary logarithm of the nanoseconds of a period: 1.07 s.
const PERIOD_SHIFT: u32 = 30;
const COUNT_BITS: u32 = 32;

/// Refused packets of this CPU in a period: 32 bits of the period's number above 32 of the count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused(pub u64);

/// Factors of the finalizer of SplitMix64, by which every bit of a number changes half of all bits.
const FIRST: u64 = 0xbf58_476d_1ce4_e5b9;
const SECOND: u64 = 0x94d0_49bb_1331_11eb;

impl Refused {
    /// Returns the count after one more packet at `now`, in nanoseconds.
    #[inline(always)]
    #[must_use]
    pub const fn and_one(self, now: u64) -> Self {
        let period = now >> PERIOD_SHIFT << COUNT_BITS;
        let is_same = (self.0 ^ period) >> COUNT_BITS == 0;
        Self(if is_same { self.0 } else { period }.wrapping_add(1))
    }

    /// Returns the packets of the period so far.
    #[inline(always)]
    #[must_use]
    pub const fn packets(self) -> u64 {
        self.0 << COUNT_BITS >> COUNT_BITS
    }

    /// Returns the number of packets for which the last packet counts: 0, 1 or [`RATE`].
    #[inline(always)]
    #[must_use]
    pub const fn weight(self) -> u64 {
        if self.packets() <= EXACT {
            return 1;
        }
        // Scattered, so that no rhythm of a source's packets meets or misses the samples.
        let first = (self.0 ^ self.0 >> 30).wrapping_mul(FIRST);
        let is_drawn = (first ^ first >> 27).wrapping_mul(SECOND) >> (u64::BITS - RATE.trailing_zeros()) == 0;
        if is_drawn { RATE } else { 0 }
    }
}

/// Returns the error that 19 of 20 estimates of this many packets do not exceed: two standard deviations.
#[must_use]
pub const fn error(packets: u64) -> u64 {
    2 * packets.saturating_mul(RATE).isqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nanoseconds of a period.
    const PERIOD: u64 = 1 << PERIOD_SHIFT;

    /// Returns the weights of the packets after the first [`EXACT`] at one time.
    fn weights(now: u64) -> impl Iterator<Item = u64> {
        let mut count = Refused(0);
        let next = move || {
            count = count.and_one(now);
            Some(count.weight())
        };
        core::iter::from_fn(next).skip(EXACT as usize)
    }

    #[test]
    fn the_first_packets_of_each_period_are_counted_one_by_one() {
        let mut count = Refused(0);
        for period in 5..8 {
            for _ in 0..EXACT {
                count = count.and_one(period * PERIOD);
                assert_eq!(count.weight(), 1);
            }
            assert_eq!(count.packets(), EXACT);
        }
    }

    /// The error is that of independent draws: its square is [`RATE`] for each packet.
    #[test]
    fn samples_stand_for_all_packets_whatever_the_rhythm_of_a_source() {
        const PACKETS: u64 = 20_000;
        for now in [0, 7 * PERIOD, 1_000_003 * PERIOD] {
            for every in (1..=300).chain([610, 987]) {
                for first in [0, every / 3, every - 1] {
                    let counted: u64 = weights(now).skip(first).step_by(every).take(PACKETS as usize).sum();
                    let wrong = counted.abs_diff(PACKETS);
                    assert!(wrong * wrong < 20 * RATE * PACKETS, "one of {every}: {counted} of {PACKETS}");
                }
            }
        }
    }
}
