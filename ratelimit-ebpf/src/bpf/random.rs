//! Random draws without a helper call.

/// Odd number whose multiples look random (the golden ratio's fraction).
const SCATTER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns whether one of `count` draws (a power of two) falls on this number. Senders must not be able to predict the
/// number's bits.
#[inline(always)]
#[must_use]
pub const fn one_of(count: u64, number: u64) -> bool {
    number.wrapping_mul(SCATTER) >> (64 - count.trailing_zeros()) == 0
}
