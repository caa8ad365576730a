//! The second filter of sources that a rule may match. It is asked for sources that the [first](crate::identity::filter)
//! lets through. It has two bits for each IPv4 /24. A keyed hash selects two more for an IPv4 address or an IPv6 group.
//!
//! Few rules mark few groups of the first filter. Then the program does not ask the second one, which lies in more memory
//! than a CPU keeps close.
//!
//! A list of a million addresses in random places marks every group of the first filter, but 6 % of the IPv4 /24. Of other
//! addresses in these /24, 6 % match by chance.

use crate::identity::{
    class::ANY,
    source::{IPV4, Source},
};

/// Words with the bits of IPv4 groups, which come first.
const IPV4_WORDS: usize = 1 << 19;
/// Words with the bits that a hash selects.
const HASHED_WORDS: usize = 1 << 17;
/// Place of the word with the number of rules that [concern a part](is_for_part) of a group of the first filter.
pub const RULES: usize = IPV4_WORDS + HASHED_WORDS;
/// Words of the filter: 5 MB.
pub const WORDS: usize = RULES + 1;

/// Number of such rules up to which the program does not ask the filter. They mark at most one in 64 groups of a family.
pub const FEW_RULES: u64 = 1 << 10;

/// Bits of the address in an IPv4 group.
const IPV4_BITS: u8 = 24;
/// Bits of the address in IPv6 groups. A rule marks the smallest group around it.
const IPV6_BITS: [u8; 4] = [48, 32, 16, 0];

/// The two bits of an IPv4 group: there are rules for single addresses, and rules for prefixes.
const FOR_ADDRESSES: u64 = 1;
const FOR_PREFIXES: u64 = 2;
/// IPv4 groups in a word.
const GROUPS: usize = 32;

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
    let group = u32::from_be(source.first_word()) >> (u32::BITS - u32::from(IPV4_BITS));
    let found = word(group as usize / GROUPS).map_or(FOR_PREFIXES, |word| word >> (group % GROUPS as u32 * 2));
    found & FOR_PREFIXES != 0 || found & FOR_ADDRESSES != 0 && has(u32::BITS as u8)
}

/// Returns whether a rule concerns only a part of a group of the first filter: an IPv4 /16 or an IPv6 /32.
#[must_use]
pub const fn is_for_part(prefix: &Source) -> bool {
    prefix.prefix > if prefix.family == IPV4 { 16 } else { 32 }
}

/// Calls `mark` with the words that a rule for a prefix marks, and the bits in each.
pub fn places(prefix: &Source, seed: &[u64; 4], mut mark: impl FnMut(usize, u64)) {
    let (source, bits) = (prefix.of_class(ANY), prefix.prefix);
    let mut mark_hashed = |bits| {
        let (index, bits) = hashed(&source, bits, seed);
        mark(index, bits);
    };
    if prefix.family != IPV4 {
        return IPV6_BITS.into_iter().find(|shorter| *shorter <= bits).map_or((), mark_hashed);
    }
    let group = u32::from_be(prefix.first_word()) as usize >> (u32::BITS - u32::from(IPV4_BITS));
    let groups = 1usize << IPV4_BITS.saturating_sub(bits);
    if u32::from(bits) == u32::BITS {
        mark_hashed(bits);
        mark(group / GROUPS, FOR_ADDRESSES << (group % GROUPS * 2));
    } else if groups < GROUPS {
        (group..group + groups).for_each(|group| mark(group / GROUPS, FOR_PREFIXES << (group % GROUPS * 2)));
    } else {
        (group / GROUPS..(group + groups) / GROUPS).for_each(|index| mark(index, u64::MAX));
    }
}

/// Returns the word of a prefix with so many bits of the address, and its bits there. The lower bits of the same hash
/// select cells.
#[inline(always)]
fn hashed(source: &Source, bits: u8, seed: &[u64; 4]) -> (usize, u64) {
    let hash = source.shortened(bits).hash(seed);
    let index = IPV4_WORDS + ((hash >> 40) as usize & (HASHED_WORDS - 1));
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
        #![proptest_config(ProptestConfig::with_cases(4))]

        /// Whatever the prefix and its class, every source in it is concerned.
        #[test]
        fn no_ipv4_rule_is_overlooked(address: u32, host: u32, class: u8) {
            for prefix in 0..=32u8 {
                let words = filter([Source::v4(address.to_be_bytes()).shortened(prefix).of_class(class)]);
                let keep = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
                let inside = address & keep | host & !keep;
                prop_assert!(has(&words, &Source::v4(inside.to_be_bytes())), "/{prefix}");
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
        fn an_ipv4_prefix_concerns_its_own_groups_alone(v4: u32, other: u32, prefix in 1u8..=31) {
            let words = filter([Source::v4(v4.to_be_bytes()).shortened(prefix)]);
            let free = 32 - u32::from(prefix.min(24));
            prop_assert_eq!(has(&words, &Source::v4(other.to_be_bytes())), v4 >> free == other >> free);
        }
    }

    /// The seed is fixed, so that chance is too.
    #[test]
    fn an_ipv4_address_concerns_no_neighbour() {
        let words = filter([Source::v4([198, 51, 100, 7])]);
        let concerned = (0..=u8::MAX).filter(|host| has(&words, &Source::v4([198, 51, 100, *host])));
        assert_eq!(concerned.collect::<Vec<_>>(), [7]);
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
