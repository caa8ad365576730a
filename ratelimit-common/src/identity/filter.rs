//! The filter of sources that a rule may match: a bit for each IPv4 /16, and for each of as many groups of IPv6 /32.
//!
//! One rule makes its whole group look rules up. A rule for a short IPv6 prefix affects every group.

use crate::{
    boundary,
    identity::source::{IPV4, Source},
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
    /// Returns the word with the bit of a source, and the number of the bit.
    #[inline(always)]
    #[must_use]
    pub fn place(&self, source: &Source) -> (&u64, u32) {
        let number = group(source.family, source.first_word());
        let words = if source.family == IPV4 { &self.v4 } else { &self.v6 };
        (&words[(number >> 6) as usize & (WORDS - 1)], number & 63)
    }

    /// Returns whether a rule may match a source.
    #[inline(always)]
    #[must_use]
    pub fn concerns(&self, source: &Source) -> bool {
        let (word, bit) = self.place(source);
        // SAFETY: a reference is readable; volatile because others write it.
        unsafe { core::ptr::read_volatile(word) >> bit & 1 != 0 }
    }

    /// Marks a rule for a prefix.
    pub fn add(&mut self, prefix: &Source) {
        let family = prefix.family;
        let (words, bits) = if family == IPV4 { (&mut self.v4, 16) } else { (&mut self.v6, 32) };
        let free = u32::from(bits.max(prefix.prefix) - prefix.prefix);
        // Such a wide prefix covers all groups.
        if free >= 16 {
            words.fill(u64::MAX);
            return;
        }
        let first = u32::from_be(prefix.first_word());
        // All groups of the prefix have the same bits in front of the free ones.
        let step = 1 << (32 - bits);
        for number in (0..1 << free).map(|number| first | (number * step)) {
            let number = group(family, number.to_be());
            words[(number >> 6) as usize & (WORDS - 1)] |= 1 << (number & 63);
        }
    }
}

/// Returns the number of a group, 16 bits, from the first word of its addresses. For IPv4 this is the first half. For
/// IPv6 the word is scattered, so that neighbours have different numbers.
#[inline(always)]
const fn group(family: u8, first_word: u32) -> u32 {
    if family == IPV4 {
        (if cfg!(target_endian = "little") { first_word } else { first_word >> 16 }) & 0xffff
    } else {
        first_word.wrapping_mul(0x9e37_79b1) >> 16
    }
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
