//! Whom each policy concerns. The program counts nothing for this: it is read out of the rules and buckets that are there.

use std::{cmp::Reverse, collections::BTreeMap};

use ratelimit_common::limits::{
    limit::{Limit, Rate, SECOND},
    policy::LIMIT,
};

use super::{Family, Scene};
use crate::{
    dataplane::{
        Error,
        rules::{policies, spec::Terms},
    },
    limit::write,
};

/// Most policies that are told: rules can have thousands.
const MOST: usize = 100;

/// What is known of one policy.
#[derive(Debug, Clone, Copy, Default)]
struct Use {
    packets: Option<Rate>,
    bytes: Option<Rate>,
    rules: u64,
    sources: u64,
    exceeding: u64,
}

pub(super) fn families(scene: &Scene<'_>) -> Result<Vec<Family>, Error> {
    let (all, left_out) = most_used(scene)?;
    let mut rules = Family::gauge("ratelimit_policy_rules", "Rules in force by their policy, in the words of a limit.");
    let mut packets =
        Family::gauge("ratelimit_policy_packets_per_second", "What a policy lets each source send, in packets.");
    let mut bytes = Family::gauge("ratelimit_policy_bytes_per_second", "The same in bytes of whole frames.");
    let mut sources = Family::gauge(
        "ratelimit_policy_sources",
        "Sources that are remembered just now, by the policy that they were judged by last.",
    );
    let mut exceeding = Family::gauge(
        "ratelimit_policy_sources_exceeding",
        "Those of them that had packets dropped since, or would have in shadow.",
    );
    for (policy, found) in &all {
        rules.add([("policy", policy)], found.rules);
        sources.add([("policy", policy)], found.sources);
        exceeding.add([("policy", policy)], found.exceeding);
        for (family, rate) in [(&mut packets, found.packets), (&mut bytes, found.bytes)] {
            if let Some(Rate { amount, period }) = rate.filter(|rate| rate.period != 0) {
                family.add([("policy", policy)], amount as f64 * SECOND as f64 / period as f64);
            }
        }
    }
    let left_out = Family::gauge(
        "ratelimit_policies_left_out",
        "Policies that are not told, since there are more than 100: those with the fewest sources that exceed them, and rules.",
    )
    .of(left_out as u64);
    Ok(vec![rules, packets, bytes, sources, exceeding, left_out])
}

/// The policies that matter most by their words, and how many are left out.
fn most_used(scene: &Scene<'_>) -> Result<(Vec<(String, Use)>, usize), Error> {
    let (rules, tracked) = (&scene.rules.by_policy, &scene.tracked.by_policy);
    let mut slots: Vec<_> = rules.keys().chain(tracked.keys()).copied().collect();
    slots.sort_unstable();
    slots.dedup();
    let mut by_words = BTreeMap::<String, Use>::new();
    for slot in slots {
        let terms = policies::terms(scene.view.tables(), slot)?;
        let limit = if terms.policy.kind == LIMIT { Some(Limit::of(&terms.policy)) } else { None };
        let (sources, exceeding) = tracked.get(&slot).copied().unwrap_or_default();
        let found = by_words.entry(words(&terms)).or_default();
        *found = Use {
            packets: limit.and_then(|limit| limit.packets),
            bytes: limit.and_then(|limit| limit.bytes),
            rules: found.rules + rules.get(&slot).copied().unwrap_or(0),
            sources: found.sources + sources,
            exceeding: found.exceeding + exceeding,
        };
    }
    let mut all: Vec<_> = by_words.into_iter().collect();
    all.sort_by_key(|(_, found)| Reverse((found.exceeding, found.rules, found.sources)));
    let left_out = all.len().saturating_sub(MOST);
    all.truncate(MOST);
    Ok((all, left_out))
}

fn words(terms: &Terms) -> String {
    let Limit { packets, bytes, .. } = Limit::of(&terms.policy);
    let limits = terms.policy.kind == LIMIT && (packets.is_some() || bytes.is_some() || !terms.parents.is_empty());
    if limits { write::limit(terms) } else { write::terms(terms) }
}
