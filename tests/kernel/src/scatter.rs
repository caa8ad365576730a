//! Pseudo-random numbers. The user side of the tests includes this file.

/// Returns the finalizer of SplitMix64.
#[inline(always)]
pub(crate) fn scattered(number: u64) -> u64 {
    let mut x = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Returns a different address of the whole address space for each number (the finalizer of MurmurHash3, which is a
/// bijection).
#[inline(always)]
pub(crate) fn spread(number: u32) -> u32 {
    let mut x = (number ^ (number >> 16)).wrapping_mul(0x85eb_ca6b);
    x = (x ^ (x >> 13)).wrapping_mul(0xc2b2_ae35);
    x ^ (x >> 16)
}
