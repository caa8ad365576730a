//! One word that is the state of a limit by any algorithm. Its lowest bits name the algorithm, so that no algorithm
//! reads the state of another, even if rules change while packets are decided. So five algorithms need no more memory
//! than one.
//!
//! Times in [`Units`] are even, since the clock counts nanoseconds and all costs are even. So an even word is a time of
//! [`crate::meters::gcra`], and an odd one is a count of a [window](crate::meters::window). The next bit tells fixed
//! from sliding windows.

use crate::meters::gcra::{self, MAX_DEBT, Units};

/// Number of the lowest bits, which name the kind of a state.
pub const KIND_BITS: u32 = 2;
/// Lowest bits of a count in a [fixed window](crate::meters::window).
pub const FIXED: u64 = 0b01;
/// Lowest bits of the counts of a [sliding window](crate::meters::window).
pub const SLIDING: u64 = 0b11;

/// Returns the kind of a state: [`FIXED`], [`SLIDING`], or any other value for a time.
#[inline(always)]
#[must_use]
pub const fn kind(state: u64) -> u64 {
    state & ((1 << KIND_BITS) - 1)
}

/// Returns the debt of a state at `now`: 0 if it is not a time. See [`gcra::debt`].
#[inline(always)]
#[must_use]
pub const fn debt(state: u64, now: Units) -> Units {
    // One comparison for both: an odd distance becomes a large one.
    let halves = state.wrapping_sub(now).rotate_right(1);
    if halves <= MAX_DEBT / 2 { gcra::debt(state, now) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meters::gcra::units;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_time_owes_and_a_count_does_not(now in 0u64..1 << 54, owed in 0..=MAX_DEBT / 2, count: u64) {
            let now = units(now);
            prop_assert_eq!(debt(now.wrapping_add(2 * owed), now), 2 * owed);
            prop_assert_eq!(debt(count | 1, now), 0);
            prop_assert_eq!(debt(now.wrapping_add(count & !1), now), gcra::debt(now.wrapping_add(count & !1), now));
        }
    }
}
