//! The filter of sources that a rule may match: a bit for each IPv4 /16, and for each of as many groups of IPv6 /32.
//!
//! One rule lets its whole group through to the [second filter](crate::identity::fine_filter). A rule for a short IPv6 prefix affects every group.
//!
//! Further bits tell which prefixes may have a [narrow](crate::identity::narrow) rule, by a keyed hash.

use crate::{
    boundary,
    identity::{
        class::ANY,
        narrow::{Lengths, MOST_LENGTHS},
        source::{IPV4, Source},
    },
};

/// Words of one family's bits.
const WORDS: usize = 1 << 10;

/// Words of the bits of narrow prefixes. Each rule takes two of the million bits.
const NARROW_WORDS: usize = 1 << 14;

/// The entry of the map of the filter.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filter {
    v4: [u64; WORDS],
    v6: [u64; WORDS],
    narrow: [u64; NARROW_WORDS],
}
boundary!(Filter, size 147_456);

impl Default for Filter {
    fn default() -> Self {
        Self { v4: [0; WORDS], v6: [0; WORDS], narrow: [0; NARROW_WORDS] }
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

    /// Returns the bits of the longest part around an IPv6 address that may have a narrow rule; 0 if none may have one.
    /// All narrow rules around the address lie around that part too. With [many](Lengths::MANY) lengths, the part is the
    /// address.
    #[inline(always)]
    #[must_use]
    pub fn longest_part(&self, address: &Source, ipv6_prefix: u8, lengths: Lengths, seed: &[u64; 4]) -> u8 {
        if !self.is_marked(&address.shortened(ipv6_prefix), seed) {
            return 0;
        }
        if lengths == Lengths::MANY {
            return address.prefix;
        }
        for place in 0..MOST_LENGTHS {
            let length = lengths.at(place);
            if length == 0 {
                break;
            }
            if self.is_marked(&address.shortened(length), seed) {
                return length;
            }
        }
        0
    }

    /// Marks a narrow rule for a part of a source with `ipv6_prefix` bits.
    pub const fn add_part(&mut self, part: &Source, ipv6_prefix: u8, seed: &[u64; 4]) {
        // Packets have no class yet when the program asks.
        let part = part.of_class(ANY);
        self.mark(part.hash(seed));
        self.mark(part.shortened(ipv6_prefix).hash(seed));
    }

    #[inline(always)]
    fn is_marked(&self, prefix: &Source, seed: &[u64; 4]) -> bool {
        let (word, bit) = narrow_place(prefix.hash(seed));
        // SAFETY: a reference is readable; volatile because others write it.
        unsafe { core::ptr::read_volatile(&raw const self.narrow[word]) >> bit & 1 != 0 }
    }

    const fn mark(&mut self, hash: u64) {
        let (word, bit) = narrow_place(hash);
        self.narrow[word] |= 1 << bit;
    }

    /// Marks every part of every source.
    pub fn add_all_parts(&mut self) {
        self.narrow.fill(u64::MAX);
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

/// Returns the word and the bit for a hash. The lower bits of the same hash select cells.
#[inline(always)]
const fn narrow_place(hash: u64) -> (usize, u32) {
    ((hash >> 38) as usize & (NARROW_WORDS - 1), (hash >> 32) as u32 & 63)
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
    extern crate std;

    use std::vec::Vec;

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

        /// The part that is found has the same narrow rules around it as the address.
        #[test]
        fn no_narrow_rule_is_overlooked(
            rules in prop::collection::vec((any::<u128>(), 65u8..=128), 1..7), of: prop::sample::Index, host: u128, seed: [u64; 4],
        ) {
            let (mut filter, mut lengths) = (Filter::default(), Lengths::default());
            let rules: Vec<_> = rules.iter().map(|(address, bits)| Source::v6(address.to_be_bytes(), *bits)).collect();
            for rule in &rules {
                filter.add_part(&rule.of_class(7), 64, &seed);
                lengths = lengths.with(rule.prefix);
            }
            let rule = of.get(&rules);
            let keep = u128::MAX << (128 - u32::from(rule.prefix)) ;
            let address = u128::from_be_bytes(rule.address()) | host & !keep;
            let address = Source::v6(address.to_be_bytes(), 128);
            let part = filter.longest_part(&address, 64, lengths, &seed);
            for rule in rules.iter().filter(|rule| address.shortened(rule.prefix) == **rule) {
                prop_assert!(part >= rule.prefix);
            }
            let other = Source::v6((!u128::from_be_bytes(address.address())).to_be_bytes(), 128);
            prop_assert_eq!(Filter::default().longest_part(&other, 64, lengths, &seed), 0);
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
