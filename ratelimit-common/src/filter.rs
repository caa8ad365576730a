//! Which sources an operator's rule may concern: a bit for each IPv4 /16, and for each of as many groups of IPv6 /32.

use crate::{
    boundary,
    source::{IPV4, Source},
};

/// Words of one family's bits.
const WORDS: usize = 1 << 10;

/// The entry of the map of the filter.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filter {
    v4: [u64; WORDS],
    v6: [u64; WORDS],
}
boundary!(Filter, size 16_384);

impl Default for Filter {
    fn default() -> Self {
        Self { v4: [0; WORDS], v6: [0; WORDS] }
    }
}

impl Filter {
    /// Where the bit of a source is: its word, and the bit in it.
    #[inline(always)]
    #[must_use]
    pub fn place(&self, source: &Source) -> (&u64, u32) {
        let number = group(source);
        let words = if source.family == IPV4 { &self.v4 } else { &self.v6 };
        (&words[(number >> 6) as usize & (WORDS - 1)], number & 63)
    }

    /// Whether a rule may concern a source.
    #[inline(always)]
    #[must_use]
    pub fn concerns(&self, source: &Source) -> bool {
        let (word, bit) = self.place(source);
        // SAFETY: a reference is readable; volatile because the user side writes it.
        unsafe { core::ptr::read_volatile(word) >> bit & 1 != 0 }
    }

    /// Notes a rule for a prefix.
    pub fn add(&mut self, prefix: &Source) {
        let is_v4 = prefix.family == IPV4;
        let bits = if is_v4 { 16 } else { 32 };
        let words = if is_v4 { &mut self.v4 } else { &mut self.v6 };
        let first = top(prefix);
        // Of IPv6, so many groups are noted as /16 has: beyond that, all of them.
        let free = bits.max(u32::from(prefix.prefix)) - u32::from(prefix.prefix);
        if free >= 16 {
            words.fill(u64::MAX);
            return;
        }
        for number in first..=first | ((1 << free) - 1) {
            let number = if is_v4 { number } else { scatter(number) };
            words[(number >> 6) as usize & (WORDS - 1)] |= 1 << (number & 63);
        }
    }
}

/// The number of a source's group, 16 bits.
#[inline(always)]
const fn group(source: &Source) -> u32 {
    if source.family == IPV4 { top(source) } else { scatter(top(source)) }
}

/// The first 16 bits of an IPv4 address, the first 32 of an IPv6 address.
#[inline(always)]
const fn top(source: &Source) -> u32 {
    let first = source.first_word();
    if source.family == IPV4 { first >> 16 } else { first }
}

/// Spreads neighbouring IPv6 /32 over all groups.
#[inline(always)]
const fn scatter(number: u32) -> u32 {
    number.wrapping_mul(0x9e37_79b1) >> 16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever the prefix, every source in it is concerned.
        #[test]
        fn no_rule_is_overlooked(address: u128, v4: u32, prefix in 0u8..=128, v4_prefix in 0u8..=32, host: u128) {
            let mut filter = Filter::default();
            filter.add(&Source::v4(v4.to_be_bytes()).shortened(v4_prefix));
            let keep = u32::MAX.checked_shl(32 - u32::from(v4_prefix)).unwrap_or(0);
            let inside = v4 & keep | host as u32 & !keep;
            prop_assert!(filter.concerns(&Source::v4(inside.to_be_bytes())));
            filter.add(&Source::v6(address.to_be_bytes(), prefix));
            let keep = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
            let inside = address & keep | host & !keep;
            prop_assert!(filter.concerns(&Source::v6(inside.to_be_bytes(), 64)));
        }

        #[test]
        fn a_rule_concerns_its_own_group_alone(v4: u32, other: u32, v6: u32) {
            let mut filter = Filter::default();
            filter.add(&Source::v4(v4.to_be_bytes()));
            prop_assert_eq!(filter.concerns(&Source::v4(other.to_be_bytes())), v4 >> 16 == other >> 16);
            prop_assert!(!filter.concerns(&Source::v6((u128::from(v6) << 96).to_be_bytes(), 64)));
        }
    }
}
