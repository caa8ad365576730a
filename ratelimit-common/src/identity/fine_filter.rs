//! The second filter of sources that a rule may match. It is asked for sources that the [first](crate::identity::filter)
//! lets through. It has a bit for each IPv4 /22 and two bits for each IPv4 /24. A keyed hash selects two more for an IPv4
//! address, an IPv4 /28 or an IPv6 group.
//!
//! Few rules mark few groups of the first filter. Then the program does not ask the second one, which lies in more memory
//! than a CPU keeps close.
//!
//! A list of a million addresses in random places marks every group of the first filter, but 21 % of the IPv4 /22 and 6 %
//! of the IPv4 /24. The bits of the /22 need 512 KB, which a CPU keeps closer than the others. Of other addresses in the
//! marked /24, 5 % match by chance.

use crate::identity::{
    class::ANY,
    source::{IPV4, Source},
};

/// Words with the bits of the IPv4 /22, which come first.
const WIDE_WORDS: usize = 1 << 16;
/// Words with the bits of the IPv4 /24.
const IPV4_WORDS: usize = 1 << 19;
/// Words with the bits that a hash selects.
const HASHED_WORDS: usize = 1 << 17;
const HASHED_FROM: usize = WIDE_WORDS + IPV4_WORDS;
/// Place of the word with the number of rules that [concern a part](is_for_part) of a group of the first filter.
pub const RULES: usize = HASHED_FROM + HASHED_WORDS;
/// Words of the filter: 5.5 MB.
pub const WORDS: usize = RULES + 1;

/// Number of such rules up to which the program does not ask the filter. They mark at most one in 64 groups of a family.
pub const FEW_RULES: u64 = 1 << 10;

/// Bits of the address in a wide IPv4 group.
const WIDE_BITS: u32 = 22;
/// Bits of the address in an IPv4 group.
const IPV4_BITS: u32 = 24;
/// Bits of the address in the parts of an IPv4 group that a hash selects. A rule for a shorter prefix marks several.
const PART_BITS: u8 = 28;
const ADDRESS_BITS: u8 = 32;
/// Bits of the address in IPv6 groups. A rule marks the smallest group around it.
const IPV6_BITS: [u8; 4] = [48, 32, 16, 0];

/// The two bits of an IPv4 group: there are rules for single addresses, and rules for parts. With both bits, a rule may
/// match every source in the group.
const FOR_ADDRESSES: u64 = 1;
const FOR_PARTS: u64 = 2;
const FOR_ALL: u64 = FOR_ADDRESSES | FOR_PARTS;
const BITS_OF_GROUP: usize = 2;
const WORD_BITS: usize = u64::BITS as usize;

/// Returns whether a rule may match a source. `word` reads a word of the filter.
#[inline(always)]
#[must_use]
pub fn concerns(source: &Source, seed: &[u64; 4], word: impl Fn(usize) -> Option<u64>) -> bool {
    let has = |bits| {
        let (index, bits) = hashed(source, bits, seed);
        word(index).is_none_or(|word| word & bits == bits)
    };
    if source.family != IPV4 {
        return IPV6_BITS.into_iter().any(has);
    }
    let address = u32::from_be(source.first_word());
    let from = |first: usize, bit: usize| word(first + bit / WORD_BITS).map(|word| word >> (bit % WORD_BITS));
    if from(0, (address >> (u32::BITS - WIDE_BITS)) as usize).is_some_and(|word| word & 1 == 0) {
        return false;
    }
    let group = (address >> (u32::BITS - IPV4_BITS)) as usize;
    match from(WIDE_WORDS, group * BITS_OF_GROUP).map_or(FOR_ALL, |word| word & FOR_ALL) {
        0 => false,
        FOR_ADDRESSES => has(ADDRESS_BITS),
        FOR_PARTS => has(PART_BITS),
        _ => true,
    }
}

/// Returns whether a rule concerns only a part of a group of the first filter: an IPv4 /16 or an IPv6 /32.
#[must_use]
pub const fn is_for_part(prefix: &Source) -> bool {
    prefix.prefix > if prefix.family == IPV4 { 16 } else { 32 }
}

/// Calls `mark` with the words that a rule for a prefix marks, and the bits in each.
pub fn places(prefix: &Source, seed: &[u64; 4], mut mark: impl FnMut(usize, u64)) {
    let (source, bits) = (prefix.of_class(ANY), prefix.prefix);
    if prefix.family != IPV4 {
        let smallest = IPV6_BITS.into_iter().find(|shorter| *shorter <= bits);
        return smallest.map_or((), |bits| mark_hashed(&source, bits, seed, &mut mark));
    }
    let (address, length) = (u32::from_be(prefix.first_word()), u32::from(bits));
    let groups_of =
        |group_bits: u32| ((address >> (u32::BITS - group_bits)) as usize, 1usize << group_bits.saturating_sub(length));
    let (wide, wides) = groups_of(WIDE_BITS);
    mark_run(0, wide, wides, &mut mark);
    let (group, groups) = groups_of(IPV4_BITS);
    let group = group * BITS_OF_GROUP;
    let mut mark_kind = |kind| mark(WIDE_WORDS + group / WORD_BITS, kind << (group % WORD_BITS));
    if bits == ADDRESS_BITS {
        mark_kind(FOR_ADDRESSES);
        mark_hashed(&source, bits, seed, &mut mark);
    } else if length > IPV4_BITS {
        mark_kind(FOR_PARTS);
        for part in 0..1u32 << PART_BITS.saturating_sub(bits) {
            let part = Source::v4((address + (part << (ADDRESS_BITS - PART_BITS))).to_be_bytes());
            mark_hashed(&part, PART_BITS, seed, &mut mark);
        }
    } else {
        mark_run(WIDE_WORDS, group, groups * BITS_OF_GROUP, &mut mark);
    }
}

/// Marks so many bits from one on. Their number is a power of two, and the first bit is a multiple of it.
fn mark_run(first_word: usize, first_bit: usize, bits: usize, mark: &mut impl FnMut(usize, u64)) {
    let word = first_word + first_bit / WORD_BITS;
    if bits < WORD_BITS {
        mark(word, ((1 << bits) - 1) << (first_bit % WORD_BITS));
    } else {
        (word..word + bits / WORD_BITS).for_each(|word| mark(word, u64::MAX));
    }
}

fn mark_hashed(source: &Source, bits: u8, seed: &[u64; 4], mark: &mut impl FnMut(usize, u64)) {
    let (index, bits) = hashed(source, bits, seed);
    mark(index, bits);
}

/// Returns the word of a prefix with so many bits of the address, and its bits there. The lower bits of the same hash
/// select cells.
#[inline(always)]
fn hashed(source: &Source, bits: u8, seed: &[u64; 4]) -> (usize, u64) {
    let hash = source.shortened(bits).hash(seed);
    let index = HASHED_FROM + ((hash >> 40) as usize & (HASHED_WORDS - 1));
    (index, 1 << (hash >> 34 & 63) | 1 << (hash >> 28 & 63))
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::{vec, vec::Vec};

    use super::*;
    use proptest::prelude::*;

    const SEED: [u64; 4] = [0x1234_5678_9abc_def1, 3, 0x0fed_cba9_8765_4321, 0x9e37_79b9_7f4a_7c15];

    fn filter(prefixes: impl IntoIterator<Item = Source>) -> Vec<u64> {
        let mut words = vec![0; WORDS];
        prefixes.into_iter().for_each(|prefix| places(&prefix, &SEED, |index, bits| words[index] |= bits));
        words
    }

    fn has(words: &[u64], source: &Source) -> bool {
        concerns(source, &SEED, |index| words.get(index).copied())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Whatever the prefix and its class, and beside another rule in the group, every source in it is concerned.
        #[test]
        fn no_ipv4_rule_is_overlooked(address: u32, host: u32, neighbour: u8, other in 24u8..=32, class: u8) {
            let neighbour = Source::v4((address & !0xff | u32::from(neighbour)).to_be_bytes());
            for prefix in 0..=32u8 {
                let rule = Source::v4(address.to_be_bytes()).shortened(prefix).of_class(class);
                let words = filter([rule, neighbour.shortened(other)]);
                let keep = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
                let inside = address & keep | host & !keep;
                prop_assert!(has(&words, &Source::v4(inside.to_be_bytes())), "/{prefix}");
                prop_assert!(has(&words, &neighbour), "/{prefix} beside /{other}");
            }
        }

        #[test]
        fn no_ipv6_rule_is_overlooked(address: u128, host: u128, class: u8) {
            for prefix in 0..=128u8 {
                let words = filter([Source::v6(address.to_be_bytes(), prefix).of_class(class)]);
                let keep = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
                let inside = address & keep | host & !keep;
                prop_assert!(has(&words, &Source::v6(inside.to_be_bytes(), 128)), "/{prefix}");
            }
        }

        #[test]
        fn an_ipv4_prefix_concerns_its_own_parts_alone(v4: u32, prefix in 1u8..=31, part in 0u32..64, far in 0u32..=31) {
            let words = filter([Source::v4(v4.to_be_bytes()).shortened(prefix)]);
            // In the same /22, or elsewhere.
            let other = v4 ^ part << 4 ^ 1 << far;
            let free = 32 - u32::from(prefix.min(28));
            prop_assert_eq!(has(&words, &Source::v4(other.to_be_bytes())), v4 >> free == other >> free);
        }
    }

    /// The seed is fixed, so that chance is too.
    #[test]
    fn an_ipv4_address_or_a_part_of_a_group_concerns_no_neighbour() {
        for (prefix, concerned) in [(32, 39..=39), (31, 32..=47), (28, 32..=47), (26, 0..=63), (24, 0..=255)] {
            let words = filter([Source::v4([198, 51, 100, 39]).shortened(prefix)]);
            let found = (0..=u8::MAX).filter(|host| has(&words, &Source::v4([198, 51, 100, *host])));
            assert!(found.eq(concerned), "/{prefix}");
        }
    }

    #[test]
    fn a_quarter_of_a_million_ipv6_entries_concern_few_others() {
        let source = |number: u64, spread: u64| {
            let first = number.wrapping_mul(spread) | 1 << 61;
            Source::v6((u128::from(first) << 64).to_be_bytes(), 64)
        };
        let words = filter((0..250_000).map(|number| source(number, 0x9e37_79b9_7f4a_7c15)));
        let chance = (0..100_000).filter(|number| has(&words, &source(*number, 0xd129_0d3d_4d3d_5a2f))).count();
        assert!((100..3_000).contains(&chance), "{chance} of 100,000");
    }
}
