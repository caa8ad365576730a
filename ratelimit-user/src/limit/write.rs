//! Terms in words, as they are given.

use ratelimit_common::limits::{
    algorithm::Algorithm,
    limit::Limit,
    policy::{ALLOW, BAN, DENY, DROP, Policy},
};

use super::excess::{self, Throttle};
use crate::{
    dataplane::rules::spec::{ParentLimit, Scope, Terms},
    units::{ByteRate, PacketRate},
};

/// The terms of a rule in a few words.
pub(crate) fn terms(terms: &Terms) -> String {
    let parents = terms.parents.iter().map(|limit| format!(", {}", parent(limit)));
    policy(&terms.policy) + &parents.collect::<String>() + &manner(&terms.policy)
}

/// The terms of a limit in a sentence.
pub(crate) fn limit(terms: &Terms) -> String {
    let parents: Vec<_> = terms.parents.iter().map(parent).collect();
    let word = if terms.policy.algorithm == Algorithm::LeakyBucket as u8 { "queue" } else { "burst" };
    let own = match terms.policy.given.burst {
        0 => format!("{} per source", policy(&terms.policy)),
        burst => format!("{} per source, {word} {burst}", policy(&terms.policy)),
    };
    let own = own + &manner(&terms.policy);
    if parents.is_empty() { own } else { format!("{own}; together {}", parents.join(", ")) }
}

/// By what a limit counts and what becomes of packets over it, as far as that is not the usual, for the end of a phrase.
fn manner(policy: &Policy) -> String {
    let mut text = String::new();
    if policy.algorithm != Algorithm::default() as u8 {
        text += &format!(", {}", algorithm(policy));
    }
    match Throttle::of(policy) {
        Throttle::Hard => {}
        throttle => text += &format!(", {throttle}"),
    }
    if policy.over_limit != DROP {
        text += &format!(", {}", excess::over_limit(policy));
    }
    excess::ban(&policy.ban).map_or(text.clone(), |ban| format!("{text}, ban {ban}"))
}

/// The name of a policy's algorithm.
pub(crate) fn algorithm(policy: &Policy) -> &'static str {
    Algorithm::of(policy.algorithm).unwrap_or_default().name()
}

/// A policy's limits of packets.
pub(crate) fn packets(policy: &Policy) -> Option<String> {
    let Limit { packets, second_packets, .. } = Limit::of(policy);
    let first = PacketRate(packets?).to_string();
    Some(second_packets.map_or(first.clone(), |second| format!("{first},{}", PacketRate(second))))
}

/// A policy's limit of bytes.
pub(crate) fn bytes(policy: &Policy) -> Option<String> {
    Limit::of(policy).bytes.map(|rate| ByteRate(rate).to_string())
}

/// A parent as it is given: `/24=20000/s`.
pub(crate) fn parent(limit: &ParentLimit) -> String {
    let rates = policy(&limit.policy).replace(", ", ",");
    match limit.scope {
        Scope::Prefix(_, bits) => format!("/{}={rates}", bits.0),
        Scope::Interface => format!("interface={rates}"),
        Scope::All => format!("all={rates}"),
    }
}

/// A policy in a few words.
fn policy(policy: &Policy) -> String {
    match (policy.kind, packets(policy), bytes(policy)) {
        (ALLOW, ..) => "allow".to_owned(),
        (DENY, ..) => "deny".to_owned(),
        (BAN, ..) => "ban".to_owned(),
        (_, Some(packets), Some(bytes)) => format!("{packets}, {bytes}"),
        (_, Some(rate), None) | (_, None, Some(rate)) => rate,
        (_, None, None) => "no limit".to_owned(),
    }
}
