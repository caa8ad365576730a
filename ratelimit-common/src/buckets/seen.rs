//! Counts of packets in a bucket, with the times at which its source was first and last seen in their highest bits.
//!
//! The times have no word of their own, so that buckets stay small. They wrap around: a source that was tracked for 391
//! days seems new, and one that was silent for 48 days seems just seen. Of two last times that are more than 26 days
//! apart, the earlier one seems later.

/// Bits of a count of packets. After 2⁴⁴ packets, 20 days at 10 million a second, it starts again at 0.
const COUNT_BITS: u32 = 44;
const COUNT: u64 = (1 << COUNT_BITS) - 1;
/// Highest bit of the count of dropped packets: some refused packets were counted by
/// [samples](crate::cells::refused_sample).
pub const SAMPLED: u64 = 1 << 63;

/// The last time is rounded down to a multiple of 2³² ns (4.3 s).
const LAST_SHIFT: u32 = 32;
const LAST_BITS: u32 = u64::BITS - COUNT_BITS;
/// The first time is rounded down to a multiple of 2³⁶ ns (69 s).
const FIRST_SHIFT: u32 = 36;
const FIRST_BITS: u32 = LAST_BITS - 1;

/// Returns the number of packets in a word.
#[inline(always)]
#[must_use]
pub const fn count(word: u64) -> u64 {
    word & COUNT
}

/// Returns the word with another count.
#[inline(always)]
#[must_use]
pub const fn with_count(word: u64, count: u64) -> u64 {
    word & !COUNT | count & COUNT
}

/// This part of 16 of all steps and the rest are ahead of the clock.
const AHEAD: u64 = 15;

/// Returns a word that counts no packet and says that its source was last seen at `now`, in nanoseconds.
#[inline(always)]
#[must_use]
pub const fn last(now: u64) -> u64 {
    // 0 is left for sources of which no time is known.
    (now >> LAST_SHIFT).wrapping_add(1) << COUNT_BITS
}

/// Returns whether two words have the same last time.
#[inline(always)]
#[must_use]
pub const fn is_same_time(word: u64, other: u64) -> bool {
    (word ^ other) >> COUNT_BITS == 0
}

/// Returns whether the last time of a word is known, and later than that of another or alone known.
#[must_use]
pub const fn is_later(word: u64, other: u64) -> bool {
    let (step, before) = (word >> COUNT_BITS, other >> COUNT_BITS);
    step != 0 && (before == 0 || (step.wrapping_sub(before) << COUNT_BITS).cast_signed() > 0)
}

/// Returns a word that counts no packet and says that its source was first seen at `now`, in nanoseconds.
#[inline(always)]
#[must_use]
pub const fn first(now: u64) -> u64 {
    (now >> FIRST_SHIFT).wrapping_add(1) << (COUNT_BITS + 1) >> 1
}

/// Returns whether it is known when a source was first seen.
#[inline(always)]
#[must_use]
pub const fn has_first(word: u64) -> bool {
    word << 1 >> (COUNT_BITS + 1) != 0
}

/// Returns the word with the first time of another, unless it has one.
#[must_use]
pub const fn with_first(word: u64, other: u64) -> u64 {
    if has_first(word) { word } else { word | other & !(COUNT | SAMPLED) }
}

/// Returns for how long a source has been silent, in nanoseconds. None if it is unknown.
#[must_use]
pub const fn since_last(word: u64, now: u64) -> Option<u64> {
    since(word >> COUNT_BITS, now, LAST_SHIFT, LAST_BITS)
}

/// Returns how long ago a source was first seen, in nanoseconds. None if it is unknown.
#[must_use]
pub const fn since_first(word: u64, now: u64) -> Option<u64> {
    since(word << 1 >> (COUNT_BITS + 1), now, FIRST_SHIFT, FIRST_BITS)
}

const fn since(step: u64, now: u64, shift: u32, bits: u32) -> Option<u64> {
    if step == 0 {
        return None;
    }
    let steps = (now >> shift).wrapping_add(1).wrapping_sub(step) & ((1 << bits) - 1);
    // The clock was read before the word.
    if steps >= AHEAD << (bits - 4) {
        return Some(0);
    }
    let within = now & ((1 << shift) - 1);
    Some((steps << shift).saturating_add(within))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DAY: u64 = 86_400_000_000_000;

    proptest! {
        #[test]
        fn times_are_exact_but_for_their_step(
            seen in 0u64..1 << 57, later in 0..48 * DAY, number in 0..COUNT, sampled: bool,
        ) {
            let now = seen + later;
            let sampled = if sampled { SAMPLED } else { 0 };
            let (passed, refused) = (with_count(last(seen), number), with_count(first(seen) | sampled, number));
            prop_assert_eq!((count(passed), count(refused)), (number, number));
            prop_assert_eq!(refused & SAMPLED, sampled);
            // A step whose number is 0 is unknown.
            if let Some(silent) = since_last(passed, now) {
                prop_assert!((later..later + (1 << LAST_SHIFT)).contains(&silent), "{} {}", silent, later);
            }
            if let Some(tracked) = since_first(refused, now) {
                prop_assert!((later..later + (1 << FIRST_SHIFT)).contains(&tracked), "{} {}", tracked, later);
            }
            prop_assert_eq!(is_same_time(passed, last(now)), last(seen) == last(now));
            let half = 1 << (LAST_BITS - 1 + LAST_SHIFT);
            let is_known = last(seen) != 0 && last(now) != 0;
            if is_known && later < half {
                prop_assert_eq!(is_later(last(now), passed), last(seen) != last(now));
                prop_assert!(!is_later(passed, last(now)));
            }
        }
    }

    #[test]
    fn a_count_alone_has_no_times() {
        assert_eq!((since_last(7, DAY), since_first(7 | SAMPLED, DAY)), (None, None));
        assert_eq!([is_later(7, last(0)), is_later(last(0), 7), is_later(7, 7)], [false, true, false]);
        assert_eq!((since_last(last(0), 0), since_first(first(0), 0)), (Some(0), Some(0)));
    }

    #[test]
    fn a_time_that_is_ahead_is_now() {
        assert_eq!(since_last(last(5 << LAST_SHIFT), (2 << LAST_SHIFT) + 1), Some(0));
        assert_eq!(since_first(first(5 << FIRST_SHIFT), (2 << FIRST_SHIFT) + 1), Some(0));
    }
}
