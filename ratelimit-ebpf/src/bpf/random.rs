//! Draws without a call.

/// An odd number whose multiples look drawn at random (the golden ratio's fraction).
const SCATTER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Whether one of `count` (a power of two) draws falls on this number, whose bits nobody foresees.
#[inline(always)]
#[must_use]
pub const fn one_of(count: u64, number: u64) -> bool {
    number.wrapping_mul(SCATTER) >> (64 - count.trailing_zeros()) == 0
}
