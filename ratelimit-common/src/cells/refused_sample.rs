//! Which packets that cached refusals refuse are counted in the buckets of their sources.
//!
//! A cached refusal is only read, so that CPUs share it without waiting. Its source's bucket counts in its place: each
//! packet while a CPU repeats few refusals, and one of [`RATE`] for all of them during a flood.
//!
//! In a flood, each [`RATE`] packets of a CPU are a block. One packet of each block is drawn, and counts for all of it.

/// Packets of a block.
pub const RATE: u64 = 64;
/// Packets that each CPU counts one by one in a period of 1.07 s.
pub const EXACT: u64 = 1 << 15;

/// Binary logarithm of the nanoseconds of a period.
const PERIOD_SHIFT: u32 = 30;
/// Nanoseconds of a period.
pub const PERIOD: u64 = 1 << PERIOD_SHIFT;
/// [`Refused::counted`]: packets were skipped.
const FLOOD: u64 = 1 << 63;
const SKIPPED_BITS: u32 = 32;
const SKIPPED: u64 = (1 << SKIPPED_BITS) - 1;

/// What a CPU remembers of refused packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Refused {
    /// 32 bits of the period's number above 32 of the number of packets that are skipped before one is counted.
    pub skipped: u64,
    /// Number of packets that were counted in the period, above the place of the last one in its block (6 bits). The
    /// highest bit tells that this period or the last one had samples.
    pub counted: u64,
}

/// Factors of the finalizer of SplitMix64, by which every bit of a number changes half of all bits.
const FIRST: u64 = 0xbf58_476d_1ce4_e5b9;
const SECOND: u64 = 0x94d0_49bb_1331_11eb;

/// Returns [`Refused::skipped`] after a packet at `now`, in nanoseconds, if that packet is skipped.
#[inline(always)]
#[must_use]
pub const fn skip(skipped: u64, now: u64) -> Option<u64> {
    let is_same = (skipped >> SKIPPED_BITS) ^ (now >> PERIOD_SHIFT & SKIPPED) == 0;
    if is_same && skipped & SKIPPED != 0 { Some(skipped - 1) } else { None }
}

impl Refused {
    /// Returns what follows a packet at `now` that is not [skipped](skip), and for how many packets it counts: 1 or
    /// [`RATE`].
    #[inline(always)]
    #[must_use]
    pub const fn count(self, now: u64, seed: u64) -> (Self, u64) {
        let period = now >> PERIOD_SHIFT << SKIPPED_BITS;
        let (before, is_same) = (self.counted & !FLOOD, (self.skipped ^ period) >> SKIPPED_BITS == 0);
        let number = if is_same { before / RATE + 1 } else { 1 };
        if number < EXACT {
            // A source of the last period may have lost packets to samples.
            let is_next = (period.wrapping_sub(1 << SKIPPED_BITS) ^ self.skipped) >> SKIPPED_BITS == 0;
            let flood = if is_same {
                self.counted & FLOOD
            } else if is_next && before / RATE >= EXACT {
                FLOOD
            } else {
                0
            };
            return (Self { skipped: period, counted: flood | (number * RATE) }, 1);
        }
        // Scattered, so that no rhythm of a source's packets meets or misses the places.
        let first = (number ^ period ^ seed).wrapping_mul(FIRST);
        let place = (first ^ first >> 27).wrapping_mul(SECOND) >> (u64::BITS - RATE.trailing_zeros());
        // The first block begins with the next packet.
        let (rest, weight) = if number == EXACT { (0, 1) } else { (RATE - 1 - before % RATE, RATE) };
        (Self { skipped: period | (rest + place), counted: FLOOD | (number * RATE) | place }, weight)
    }
}

impl Refused {
    /// Returns whether packets were skipped in this period or the last one, so that counts are estimates.
    #[inline(always)]
    #[must_use]
    pub const fn is_flood(self) -> bool {
        self.counted & FLOOD != 0
    }

    /// Returns whether packets were skipped in the period of `now`, in nanoseconds, or in the one before.
    #[must_use]
    pub const fn is_flood_at(self, now: u64) -> bool {
        let periods = (now >> PERIOD_SHIFT).wrapping_sub(self.skipped >> SKIPPED_BITS) & SKIPPED;
        self.is_flood() && periods <= 1
    }

    /// Returns the packets that were counted in the period.
    #[must_use]
    pub const fn packets(self) -> u64 {
        (self.counted & !FLOOD) / RATE
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

    /// Returns the weight of the next packet.
    fn next(refused: &mut Refused, now: u64) -> u64 {
        if let Some(skipped) = skip(refused.skipped, now) {
            refused.skipped = skipped;
            return 0;
        }
        let weight;
        (*refused, weight) = refused.count(now, 0x243f_6a88_85a3_08d3);
        weight
    }

    /// Returns the weights of the packets after the first [`EXACT`] at one time.
    fn weights(now: u64) -> impl Iterator<Item = u64> {
        let mut refused = Refused::default();
        core::iter::from_fn(move || Some(next(&mut refused, now))).skip(EXACT as usize)
    }

    #[test]
    fn the_first_packets_of_each_period_are_counted_one_by_one() {
        let mut refused = Refused::default();
        for period in [5, 6, 8, 1 << 32] {
            assert_eq!((next(&mut refused, period * PERIOD), refused.is_flood()), (1, period == 6));
            for _ in 1..EXACT {
                assert_eq!(next(&mut refused, period * PERIOD), 1);
            }
            // A flood leaves packets to be skipped.
            let sampled = (0..1_000).filter(|_| next(&mut refused, period * PERIOD) == RATE).count();
            assert!(sampled >= 14 && refused.is_flood());
            let ages = [0, 1, 2, SKIPPED].map(|age| refused.is_flood_at((period + age) * PERIOD));
            assert_eq!(ages, [true, true, false, false]);
        }
    }

    #[test]
    fn each_block_has_one_packet_that_counts_for_all() {
        for now in [0, 7 * PERIOD, 1_000_003 * PERIOD] {
            let mut weights = weights(now);
            for _ in 0..10_000 {
                let counted: u64 = weights.by_ref().take(RATE as usize).sum();
                assert_eq!(counted, RATE);
            }
        }
    }

    /// The square of the error of independent draws is [`RATE`] for each packet. Those of blocks are better.
    #[test]
    fn samples_stand_for_all_packets_whatever_the_rhythm_of_a_source() {
        const PACKETS: u64 = 4_000;
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
