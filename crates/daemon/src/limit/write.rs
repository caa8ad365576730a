//! Rules in words, as operators give them.

use ratelimit_base::text::{
    throttle::Throttle,
    units::{ByteRate, PacketRate},
};
use ratelimit_common::limits::{
    algorithm::Algorithm,
    limit::Limit,
    policy::{ALLOW, BAN, DENY, DROP, LISTED, Policy, SPARES_NONE},
};
use ratelimit_dataplane::rules::spec::{ParentLimit, RuleSpec, Scope};

use super::excess;

/// Returns a rule in a few words.
pub fn spec(spec: &RuleSpec) -> String {
    let parents = spec.parents.iter().map(|limit| format!(", {}", parent(limit)));
    policy(&spec.policy) + &parents.collect::<String>() + &differences(&spec.policy)
}

/// Returns a limit with its parents in one phrase.
pub fn limit(spec: &RuleSpec) -> String {
    let parents: Vec<_> = spec.parents.iter().map(parent).collect();
    let word = if spec.policy.algorithm == Algorithm::LeakyBucket as u8 { "queue" } else { "burst" };
    let own = match spec.policy.given.burst {
        0 => format!("{} per source", policy(&spec.policy)),
        burst => format!("{} per source, {word} {burst}", policy(&spec.policy)),
    };
    let own = own + &differences(&spec.policy);
    if parents.is_empty() { own } else { format!("{own}; parents {}", parents.join(", ")) }
}

/// Returns how a limit counts and treats excess packets, as far as that differs from the defaults, for the end of a
/// phrase.
fn differences(policy: &Policy) -> String {
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

/// Returns the name of a policy's algorithm.
pub fn algorithm(policy: &Policy) -> &'static str {
    Algorithm::of(policy.algorithm).unwrap_or_default().name()
}

/// Returns a policy's limits of packets.
pub fn packets(policy: &Policy) -> Option<String> {
    let Limit { packets, second_packets, .. } = Limit::of(policy);
    let first = PacketRate(packets?).to_string();
    Some(second_packets.map_or(first.clone(), |second| format!("{first},{}", PacketRate(second))))
}

/// Returns a policy's limit of bytes.
pub fn bytes(policy: &Policy) -> Option<String> {
    Limit::of(policy).bytes.map(|rate| ByteRate(rate).to_string())
}

/// Returns a parent as operators give it: `/24=20000/s`.
pub fn parent(limit: &ParentLimit) -> String {
    let rates = policy(&limit.policy).replace(", ", ",");
    match limit.scope {
        Scope::Prefix(_, bits) => format!("/{}={rates}", bits.0),
        Scope::Interface => format!("interface={rates}"),
        Scope::All => format!("all={rates}"),
    }
}

/// Returns a policy in a few words.
fn policy(policy: &Policy) -> String {
    match (policy.kind, packets(policy), bytes(policy)) {
        (ALLOW, ..) => "allow".to_owned(),
        (DENY, ..) if policy.flags & SPARES_NONE != 0 => "deny --force".to_owned(),
        (DENY, ..) => "deny".to_owned(),
        (BAN, ..) => "ban".to_owned(),
        (LISTED, ..) => "denied by a list".to_owned(),
        (_, Some(packets), Some(bytes)) => format!("{packets}, {bytes}"),
        (_, Some(rate), None) | (_, None, Some(rate)) => rate,
        (_, None, None) => "no limit".to_owned(),
    }
}
