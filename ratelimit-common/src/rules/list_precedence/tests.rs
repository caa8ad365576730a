extern crate std;

use std::vec::Vec;

use super::*;
use crate::{
    identity::class::Class,
    limits::policy::{ALLOWED_ID, BANNED_ID, DENIED_ID},
    rules::{
        precedence,
        rule::{COMMAND, Covered, NEVER, Rule},
    },
};
use core::convert::Infallible;
use proptest::prelude::*;

const NOW: u64 = 1_000_000_000_000_000;
/// The policy of the default.
const DEFAULT: u32 = 4;
/// The policy of an operator's limit.
const LIMIT: u32 = 5;

/// A list with prefixes around one address. Its policy is 100 and its slot.
#[derive(Debug, Clone)]
struct Named {
    list: List,
    slot: u32,
    bits: Option<u8>,
}

/// Lists of which some are in force, and the address that they are about.
#[derive(Debug, Clone)]
struct All {
    lists: Vec<Named>,
    in_force: Slots,
    source: Source,
    /// Whether the host spares it.
    is_spared: bool,
}

impl Lists for All {
    type Error = Infallible;

    fn address(&self, source: &Source) -> Result<Slots, Infallible> {
        let own = self.lists.iter().filter(|named| named.bits == Some(32) && source.prefix == 32);
        Ok(own.fold(0, |slots, named| slots | 1 << named.slot))
    }

    fn prefix(&self, _: &Source, bits: u8) -> Result<Option<ListedPrefix>, Infallible> {
        let lengths = self.lists.iter().filter_map(|named| named.bits).filter(|found| *found <= bits && *found < 32);
        let Some(longest) = lengths.max() else { return Ok(None) };
        let same = self.lists.iter().filter(|named| named.bits == Some(longest));
        let slots = same.fold(0, |slots, named| slots | 1 << named.slot);
        Ok(Some(ListedPrefix { slots, prefix: longest.into() }))
    }

    fn first(&self, slots: Slots, prefix: u8) -> Result<Match, Infallible> {
        let list = |slot| Ok(self.lists.iter().find(|named| named.slot == slot).map(|named| &named.list));
        first_list(slots, prefix, NOW, list)
    }

    fn is_spared(&self, _: &Source) -> Result<bool, Infallible> {
        Ok(self.is_spared)
    }
}

impl All {
    /// The definition: of all lists in force with the source, one that denies, then the longest prefix, then the oldest. If
    /// one denies a spared source, none applies.
    fn naive(&self) -> Option<&Named> {
        let is_in_force = |named: &&Named| self.in_force >> named.slot & 1 != 0 && !named.list.is_over(NOW);
        let with_source = self.lists.iter().filter(is_in_force).filter(|named| named.bits.is_some());
        let first =
            with_source.min_by_key(|named| (!named.list.denies(), 32 - named.bits.unwrap_or(0), named.list.created()));
        first.filter(|named| !self.is_spared || !named.list.denies())
    }
}

fn all() -> impl Strategy<Value = All> {
    let bits = prop::option::of(prop_oneof![Just(32u8), 8u8..=31]);
    let expires = prop_oneof![Just(NEVER), Just(NOW), Just(NOW + 1)];
    // Few different times, but no two are equal.
    let list = (bits, any::<bool>(), 0u64..4, expires);
    (prop::collection::btree_map(0..LIST_SLOTS, list, 0..20), any::<u64>(), any::<bool>()).prop_map(
        |(lists, in_force, is_spared)| {
            let named = |(slot, (bits, denies, created, expires)): (u32, (Option<u8>, bool, u64, u64))| Named {
                list: List {
                    policy: 100 + slot,
                    expires,
                    rank: List::rank(denies, created << 8 | u64::from(slot)),
                    ..List::NONE
                },
                slot,
                bits,
            };
            All {
                lists: lists.into_iter().map(named).collect(),
                in_force,
                source: Source::v4([192, 0, 2, 1]),
                is_spared,
            }
        },
    )
}

fn rule(policy: u32, bits: u8) -> Match {
    Match::of(&Rule { policy, prefix: bits, origin: COMMAND, covered: Covered::NONE, expires: NEVER })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_list_that_applies_is_that_of_a_scan_of_all_lists(all in all()) {
        let Ok(found) = of_lists(&all, all.in_force, &all.source);
        let naive = all.naive();
        prop_assert_eq!(found.is_listed(), naive.is_some_and(|named| named.list.denies()));
        let expected = naive.map(|named| (100 + named.slot, named.bits.unwrap()));
        prop_assert_eq!((found != Match::NONE).then(|| (found.resolution().policy(), found.prefix())), expected);
    }

    /// Whatever the prefixes: an allow, a deny, lists that deny, bans, rules that limit, lists that limit, defaults.
    #[test]
    fn rules_bans_and_lists_have_one_order(
        all in all(), bits in 8u8..=32, policy in prop::option::of(prop::sample::select(&[ALLOWED_ID, DENIED_ID, LIMIT])),
        is_banned: bool, is_of_service: bool,
    ) {
        let none = Match::new(DEFAULT, NEVER, DEFAULT_DEPTH);
        let of_class = |class: Class| Ok::<_, Infallible>(match policy {
            Some(policy) if (class != ANY) == is_of_service => rule(policy, bits),
            _ if class == ANY => none,
            _ => Match::NONE,
        });
        let ban = |class: Class| Ok(if is_banned && class == ANY { rule(BANNED_ID, 32) } else { Match::NONE });
        let Ok((best, billed)) = precedence::best(1, true, of_class, ban, || of_lists(&all, all.in_force, &all.source));
        let list = all.naive();
        let is_listed = list.is_some_and(|named| named.list.denies());
        let bans_win = is_banned && (!is_of_service || policy.is_none());
        let expected = match policy {
            Some(policy @ ALLOWED_ID) => policy,
            Some(policy @ DENIED_ID) if !bans_win => policy,
            _ if is_listed && policy != Some(DENIED_ID) => 100 + list.unwrap().slot,
            _ if bans_win => BANNED_ID,
            Some(policy) => policy,
            None => list.map_or(DEFAULT, |named| 100 + named.slot),
        };
        prop_assert_eq!(best.resolution().policy(), expected);
        prop_assert_eq!(billed, if is_of_service && policy.is_some() { 1 } else { ANY });
        // A list that limits divides no source that has a rule.
        let Ok(longest) = precedence::longest_prefix(1, true, of_class, |_| Ok(Match::NONE), || of_lists(&all, all.in_force, &all.source));
        let own = if policy.is_some() { bits } else { 0 };
        let listed = list.map_or(0, |named| if is_listed || policy.is_none() { named.bits.unwrap() } else { 0 });
        prop_assert_eq!(longest.prefix(), own.max(listed));
    }
}

/// One list for each slot, each with another prefix: the last one still counts.
#[test]
fn the_prefixes_of_all_slots_may_lie_inside_each_other() {
    let source = Source::v6([0x20; 16], 128);
    struct Nested(Vec<u8>);
    impl Lists for Nested {
        type Error = Infallible;

        fn address(&self, _: &Source) -> Result<Slots, Infallible> {
            Ok(0)
        }

        fn prefix(&self, _: &Source, bits: u8) -> Result<Option<ListedPrefix>, Infallible> {
            let longest = self.0.iter().rposition(|prefix| *prefix <= bits);
            Ok(longest.map(|slot| ListedPrefix { slots: 1 << slot, prefix: self.0[slot].into() }))
        }

        fn first(&self, slots: Slots, prefix: u8) -> Result<Match, Infallible> {
            let denies = prefix == self.0[0];
            let list = List { policy: 7, expires: NEVER, rank: List::rank(denies, 1), ..List::NONE };
            first_list(slots, prefix, NOW, |_| Ok(Some(&list)))
        }

        fn is_spared(&self, _: &Source) -> Result<bool, Infallible> {
            Ok(false)
        }
    }
    let nested = Nested((0..LIST_SLOTS as u8).map(|slot| 16 + slot).collect());
    let Ok(found) = of_lists(&nested, u64::MAX, &source);
    assert!(found.is_listed() && found.prefix() == 16);
}
