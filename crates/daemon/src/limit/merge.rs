//! A limit that exists, with some of its options changed. What is not given stays.

use anyhow::{Result, anyhow};
use ratelimit_base::text::units::{ByteRate, PacketRate};
use ratelimit_common::limits::{
    algorithm::Algorithm,
    limit::Limit,
    limit_error::LimitError,
    policy::{LIMIT, Policy},
};
use ratelimit_dataplane::rules::{
    spec::{FAMILIES, RuleSpec},
    target::Sources,
};

use super::{Rates, excess::Excess, or_off::OrOff, parent::ParentArgument, write};

/// One option that a limit has from before: the option itself, the one that takes it away, and the others.
struct Kept {
    has: String,
    away: &'static str,
    without: Rates,
}

/// Returns the limit `existing` with these options, for these sources. Without any existing limit, it is the given one.
/// `anew` is the option or the command that starts anew, for the message about a combination that is not valid.
///
/// # Errors
///
/// Fails if the limit is not valid. The message names what the limit keeps, if that is the reason.
pub fn merge(existing: Option<&RuleSpec>, given: &Rates, sources: Sources, anew: &str) -> Result<RuleSpec> {
    let Some(existing) = existing.filter(|spec| spec.policy.kind == LIMIT) else { return given.some_terms(sources) };
    let before = of(existing);
    let merged =
        valid(&over(given, &before), sources).map_err(|error| explained(error, given, &before, sources, anew))?;
    // The same limit keeps its name. Another one is not the policy of that name any more.
    let named = Policy { name: existing.policy.name, ..merged.policy };
    let policy = if named == existing.policy { named } else { merged.policy };
    Ok(RuleSpec { policy, ..merged })
}

/// Returns the options that make this limit.
fn of(spec: &RuleSpec) -> Rates {
    let limit = Limit::of(&spec.policy);
    let rates = [limit.packets, limit.second_packets].into_iter().flatten();
    // A burst that the rate gives by default changes with the rate.
    let default = Limit { burst: None, ..limit }.policy().map_or(0, |policy| policy.given.burst);
    Rates {
        packets: rates.map(|rate| OrOff::To(PacketRate(rate))).collect(),
        bytes: limit.bytes.map(|rate| OrOff::To(ByteRate(rate))),
        burst: limit.burst.filter(|burst| *burst != default).map(OrOff::To),
        algorithm: Some(limit.algorithm).filter(|algorithm| *algorithm != Algorithm::default()),
        excess: Excess::of(&spec.policy),
        parents: spec.parents.iter().map(ParentArgument::of).collect(),
    }
}

/// Returns these options, and those of `before` that are not given.
fn over(given: &Rates, before: &Rates) -> Rates {
    let Rates { packets, bytes, burst, algorithm, excess, parents } = given.clone();
    Rates {
        packets: if packets.is_empty() { before.packets.clone() } else { packets },
        bytes: bytes.or(before.bytes),
        burst: burst.or(before.burst),
        algorithm: algorithm.or(before.algorithm),
        excess: excess.over(&before.excess),
        parents: ParentArgument::over(&parents, &before.parents),
    }
}

/// Returns the limit, also checked for its parents.
fn valid(rates: &Rates, sources: Sources) -> Result<RuleSpec> {
    let spec = rates.some_terms(sources)?;
    for family in FAMILIES {
        spec.parents_of(family)?;
    }
    Ok(spec)
}

fn explained(error: anyhow::Error, given: &Rates, before: &Rates, sources: Sources, anew: &str) -> anyhow::Error {
    if matches!(error.downcast_ref(), Some(LimitError::Empty)) {
        return anyhow!("nothing would be left of the limit: `ratelimit limit del` deletes it");
    }
    let all = kept(given, before);
    let is_reason = |kept: &&Kept| valid(&over(given, &kept.without), sources).is_ok();
    let mut reasons: Vec<&Kept> = all.iter().filter(is_reason).collect();
    if reasons.is_empty() && given.some_terms(sources).is_ok() {
        reasons = all.iter().collect();
    }
    if reasons.is_empty() {
        return error;
    }
    let has: Vec<&str> = reasons.iter().map(|kept| kept.has.as_str()).collect();
    let mut away: Vec<&str> = reasons.iter().map(|kept| kept.away).collect();
    away.dedup();
    let (has, away) = (has.join(" and "), away.join(" or "));
    anyhow!("{error}. The limit keeps {has}: {away} takes it away, {anew} starts anew")
}

/// Returns the options of `before` that are not given.
fn kept(given: &Rates, before: &Rates) -> Vec<Kept> {
    let mut kept = Vec::new();
    let mut add = |is_kept: bool, has: String, away, change: &dyn Fn(&mut Rates)| {
        let mut without = before.clone();
        change(&mut without);
        if is_kept {
            kept.push(Kept { has, away, without });
        }
    };
    let packets: Vec<String> =
        before.packets.iter().filter_map(|rate| rate.value()).map(|rate| rate.to_string()).collect();
    let is_kept = given.packets.is_empty() && !packets.is_empty();
    add(is_kept, format!("--packets {}", packets.join(",")), "--packets off", &|rates| rates.packets.clear());
    if let (None, Some(OrOff::To(bytes))) = (given.bytes, before.bytes) {
        add(true, format!("--bytes {bytes}"), "--bytes off", &|rates| rates.bytes = None);
    }
    if let (None, Some(OrOff::To(burst))) = (given.burst, before.burst) {
        add(true, format!("--burst {burst}"), "--burst auto", &|rates| rates.burst = None);
    }
    if let (None, Some(algorithm)) = (given.algorithm, before.algorithm) {
        let has = format!("--algorithm {}", algorithm.name());
        add(true, has, "--algorithm token-bucket", &|rates| rates.algorithm = None);
    }
    for (has, away, excess) in before.excess.kept(&given.excess) {
        add(true, has, away, &|rates| rates.excess = excess);
    }
    for parent in &before.parents {
        let is_kept = over(given, before).parents.contains(parent);
        let has = parent.limit(Sources::Default).map(|parent| format!("--parent {}", write::parent(&parent)));
        let is_other = |other: &ParentArgument| other != parent;
        add(is_kept, has.unwrap_or_default(), "--parent off", &|rates| rates.parents.retain(is_other));
    }
    kept
}

#[cfg(test)]
mod tests;
