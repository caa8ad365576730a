extern crate std;

use std::{collections::HashMap, vec, vec::Vec};

use crate::{
    buckets::bucket::Resolution,
    identity::source::IPV4,
    limits::policy::{ALLOWED_ID, BANNED_ID, DENIED_ID, FORCED_ID},
    rules::{
        precedence::*,
        rule::{COMMAND, Covered},
        rule_match::Match,
    },
};
use core::convert::Infallible;
use proptest::prelude::*;

/// Time at which rules are looked up. A rule that expires at this time or earlier has expired.
const NOW: u64 = 1_000_000_000_000_000;

/// All rules of an instance, in lists. Each rule is listed with its source or prefix, which names its class.
#[derive(Debug, Clone, Default)]
struct All {
    bans: Vec<(Source, Rule)>,
    sources: Vec<(Source, Rule)>,
    prefixes: Vec<(Source, Rule)>,
    defaults: HashMap<Class, PolicyId>,
    /// Whether the host spares every source.
    is_spared: bool,
}

fn exact(rules: &[(Source, Rule)], source: &Source) -> Option<Rule> {
    rules.iter().find(|(of, _)| of == source).map(|(_, rule)| *rule)
}

fn covers(prefix: &Source, source: &Source) -> bool {
    let is_alike = prefix.family == source.family && prefix.class == source.class;
    is_alike && prefix.prefix <= source.prefix && source.shortened(prefix.prefix) == *prefix
}

impl Rules for All {
    type Error = Infallible;

    fn ban(&self, source: &Source) -> Result<Option<Rule>, Infallible> {
        Ok(exact(&self.bans, source))
    }

    fn source_rule(&self, source: &Source) -> Result<Option<Rule>, Infallible> {
        Ok(exact(&self.sources, source))
    }

    /// Like the kernel's prefix map, which knows nothing of expiry.
    fn prefix_rule(&self, source: &Source, bits: u8) -> Result<Option<Rule>, Infallible> {
        let fits = |(prefix, _): &&(Source, Rule)| prefix.prefix <= bits && covers(prefix, source);
        Ok(self.prefixes.iter().filter(fits).max_by_key(|(prefix, _)| prefix.prefix).map(|(_, rule)| *rule))
    }

    fn default_policy(&self, class: Class) -> Result<PolicyId, Infallible> {
        Ok(self.defaults.get(&class).copied().unwrap_or(UNLIMITED_ID))
    }

    fn is_spared(&self, _: &Source) -> Result<bool, Infallible> {
        Ok(self.is_spared)
    }
}

/// Returns the rules that are in force.
fn running(rules: &[(Source, Rule)]) -> Vec<(Source, Rule)> {
    let in_force = |(source, rule): &(Source, Rule)| match rule.below() {
        _ if NOW < rule.expires => Some((*source, *rule)),
        below => below.map(|below| (*source, below)),
    };
    rules.iter().filter_map(in_force).collect()
}

impl All {
    /// Returns the rules that are in force and apply: no deny of a spared source.
    fn applying(&self, rules: &[(Source, Rule)]) -> Vec<(Source, Rule)> {
        running(rules).into_iter().filter(|(_, rule)| !self.is_spared || rule.policy != DENIED_ID).collect()
    }

    /// Returns the bans that apply.
    fn bans(&self) -> Vec<(Source, Rule)> {
        if self.is_spared { Vec::new() } else { running(&self.bans) }
    }

    /// The definition: scans all rules, and forgets the expired ones first. Returns the bits of the rule, if it is one,
    /// and the policy.
    fn naive(&self, source: &Source, class: Class) -> Option<(Option<u8>, PolicyId)> {
        let source = source.of_class(class);
        let own = exact(&self.applying(&self.sources), &source);
        let prefixes = self.applying(&self.prefixes);
        let around = prefixes.iter().filter(|(prefix, _)| covers(prefix, &source));
        let longest = around.max_by_key(|(prefix, _)| prefix.prefix).map(|(_, rule)| *rule);
        if let Some(rule) = own.or(longest) {
            return Some((Some(rule.prefix), rule.policy));
        }
        match self.defaults.get(&class) {
            Some(policy) => Some((None, *policy)),
            None => (class == ANY).then_some((None, UNLIMITED_ID)),
        }
    }

    /// The definition for several classes, narrowest first.
    fn naive_best(&self, source: &Source, classes: &[Class]) -> (PolicyId, Class) {
        let found: Vec<_> =
            classes.iter().filter_map(|class| self.naive(source, *class).map(|found| (found, *class))).collect();
        let mut best = found[0];
        for ((bits, policy), class) in found.into_iter().skip(1) {
            let is_verdict = [ALLOWED_ID, DENIED_ID, FORCED_ID].contains(&policy);
            if is_verdict && bits.map_or(-1, i16::from) > best.0.0.map_or(-1, i16::from) {
                best = ((bits, policy), class);
            }
        }
        let ((_, policy), billed) = best;
        let up_to_billed = classes.iter().position(|class| *class == billed).map_or(0, |place| place + 1);
        let bans = self.bans();
        let banned = classes[..up_to_billed].iter().find(|class| exact(&bans, &source.of_class(**class)).is_some());
        match banned {
            Some(class) if policy != ALLOWED_ID => (BANNED_ID, *class),
            _ => (policy, billed),
        }
    }
}

/// Classes of a packet, narrowest first, and packed.
fn packed(classes: &[Class]) -> Classes {
    classes.iter().rev().fold(0, |wider, narrower| class::chain(wider, *narrower))
}

fn rule(prefix: u8, policy: PolicyId, expires: u64) -> Rule {
    Rule { policy, prefix, origin: COMMAND, covered: Covered::NONE, expires }
}

/// A few addresses that differ in their last bits only, so that rules often lie inside each other.
fn source(family_is_v4: bool, low: u8, prefix: u8) -> Source {
    if family_is_v4 {
        Source::v4([192, 0, 2, low]).shortened(prefix.min(32))
    } else {
        let mut address = [0x20; 16];
        address[15] = low;
        Source::v6(address, prefix)
    }
}

/// Ends of rules: never, long ago, this moment, soon.
fn expires() -> impl Strategy<Value = u64> {
    prop_oneof![Just(NEVER), Just(1), Just(NOW), Just(NOW + 1), Just(NOW + (1 << 40))]
}

fn lists(v4: bool) -> impl Strategy<Value = All> {
    let policy = prop_oneof![Just(ALLOWED_ID), Just(DENIED_ID), Just(FORCED_ID), 4u32..8];
    let length =
        if v4 { prop_oneof![0u8..=32, 20u8..=32].boxed() } else { prop_oneof![0u8..=128, 100u8..=128].boxed() };
    let bits = if v4 { 32 } else { 128 };
    let entry = move |length: BoxedStrategy<u8>| {
        let covered = prop::option::of(policy.clone());
        (0u8..4, length, 0u8..3, policy.clone(), expires(), covered).prop_map(
            move |(low, length, class, policy, expires, covered)| {
                let below = covered.map(|covered| Covered::new(&rule(length, covered, NEVER)));
                let rule = Rule { covered: below.unwrap_or_default(), ..rule(length, policy, expires) };
                (source(v4, low, length).of_class(class), rule)
            },
        )
    };
    (
        prop::collection::vec(entry(Just(bits).boxed()), 0..4),
        prop::collection::vec(entry(Just(bits).boxed()), 0..6),
        prop::collection::vec(entry(length), 0..40),
        prop::collection::hash_map(0u8..3, 4u32..8, 0..3),
        any::<bool>(),
    )
        .prop_map(|(bans, sources, prefixes, defaults, is_spared)| {
            // A map has one rule for each key.
            let unique =
                |rules: Vec<(Source, Rule)>| rules.into_iter().collect::<HashMap<_, _>>().into_iter().collect();
            let bans: Vec<_> = unique(bans);
            let bans =
                bans.into_iter().map(|(source, ban)| (source, Rule { policy: BANNED_ID, ..ban.bare() })).collect();
            All { bans, sources: unique(sources), prefixes: unique(prefixes), defaults, is_spared }
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_engine_agrees_with_a_scan_of_all_rules(
        (v4, lists) in any::<bool>().prop_flat_map(|v4| (Just(v4), lists(v4))), low in 0u8..4, classes in 0usize..4,
    ) {
        let classes = [&[ANY][..], &[1, ANY], &[2, ANY], &[2, 1, ANY]][classes];
        let source = source(v4, low, 128);
        let (find, bans) =
            (|class| of_class(&lists, &source, class, NOW), |class| of_bans(&lists, &source, class, NOW));
        let Ok((found, billed)) = best(packed(classes), true, find, bans, || Ok(Match::NONE));
        prop_assert_eq!((found.resolution().policy(), billed), lists.naive_best(&source, classes));
        let of_rules = classes.iter().filter_map(|class| lists.naive(&source, *class)).filter_map(|(bits, _)| bits);
        let banned = lists.bans();
        let of_bans = classes.iter().filter_map(|class| Some(exact(&banned, &source.of_class(*class))?.prefix));
        let naive = of_rules.chain(of_bans).max();
        let Ok(longest) = longest_prefix(packed(classes), true, find, bans, || Ok(Match::NONE));
        prop_assert_eq!(longest.prefix(), naive.unwrap_or(0));
        let Ok((alone, _)) = best(packed(&classes[..1]), false, find, |_| Ok(Match::NONE), || Ok(Match::NONE));
        let alone_naive = lists.naive(&source, classes[0]).map_or(UNLIMITED_ID, |(_, policy)| policy);
        prop_assert_eq!(alone.resolution().policy(), alone_naive);
    }

    /// A match holds as long as its rule.
    #[test]
    fn a_match_expires_with_its_rule(low in 0u8..4, prefix in 0u8..=128, time in NOW + 1..1 << 57) {
        let source = source(false, low, 128);
        let prefixes = vec![(source.shortened(prefix), rule(prefix, 5, time))];
        let lists = All { prefixes, ..All::default() };
        let Ok(found) = of_class(&lists, &source, ANY, NOW);
        prop_assert_eq!((found.prefix(), found.resolution()), (prefix, Resolution::new(0, 5, time)));
    }
}

/// Every number of expired prefixes inside each other, up to one for each number of bits.
#[test]
fn any_number_of_expired_prefixes_is_skipped() {
    for (v4, bits) in [(true, 32), (false, 128)] {
        let source = source(v4, 1, 128);
        assert_eq!(source.family == IPV4, v4);
        for expired in 0..=u32::from(bits) {
            let prefixes = (0..=bits).rev().zip(0..).map(|(prefix, number)| {
                let expires = if number < expired { NOW } else { NEVER };
                (source.shortened(prefix), rule(prefix, 4 + u32::from(prefix), expires))
            });
            let lists = All { prefixes: prefixes.collect(), ..All::default() };
            let Ok(found) = of_class(&lists, &source, ANY, NOW);
            assert_eq!(found.resolution().policy(), 4 + u32::from(bits) - expired, "{expired}");
        }
        let all = (0..=bits).map(|prefix| (source.shortened(prefix), rule(prefix, 4, 1))).collect();
        let lists = All { prefixes: all, defaults: HashMap::from([(ANY, 7)]), ..All::default() };
        let Ok(found) = of_class(&lists, &source, ANY, NOW);
        assert_eq!((found.resolution().policy(), found.prefix()), (7, 0));
    }
}
