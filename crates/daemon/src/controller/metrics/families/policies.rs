//! Rules and sources of each policy.
//!
//! The program does not count by policy: cached refusals do not know it, and a cell admits packets without a bucket. So
//! these metrics are computed from the rules and buckets.

use std::{cmp::Reverse, collections::BTreeMap};

use ratelimit_base::text::service::ServiceName;
use ratelimit_common::{
    identity::service::Service,
    limits::{
        limit::{Limit, Rate, SECOND},
        policy::{LIMIT, PolicyId, UNLIMITED_ID},
    },
};
use ratelimit_dataplane::{Error, rules::policies, tables::open::Tables};

use super::{page::Family, reading::Reading};
use crate::limit::write;

/// The number of policies with metrics. Rules can have thousands.
const MOST: usize = 100;

/// The label of all limits of prefixes without a name.
const LIMITED: &str = "limit";

/// The values of one policy.
#[derive(Debug, Clone, Copy, Default)]
struct Use {
    packets: Option<Rate>,
    bytes: Option<Rate>,
    rules: u64,
    sources: u64,
    exceeding: u64,
}

pub(super) fn families(reading: &Reading<'_>) -> Result<Vec<Family>, Error> {
    let (all, left_out) = most_used(reading)?;
    let mut rules = Family::gauge(
        "ratelimit_policy_rules",
        "Rules in force by policy. The label is the name of the policy, `default` with the service, or the kind of rule.",
    );
    let mut packets = Family::gauge(
        "ratelimit_policy_packets_per_second",
        "Limit of a policy for each source, in packets per second.",
    );
    let mut bytes = Family::gauge(
        "ratelimit_policy_bytes_per_second",
        "Limit of a policy for each source, in bytes of whole frames per second.",
    );
    let mut sources =
        Family::gauge("ratelimit_policy_sources", "Tracked sources by the policy of their last decision.");
    let mut exceeding = Family::gauge(
        "ratelimit_policy_sources_exceeding",
        "Tracked sources with dropped packets, by policy. Shadow mode counts too.",
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
        "Policies without metrics, because there are more than 100: those with the fewest exceeding sources and rules.",
    )
    .of(left_out as u64);
    Ok(vec![rules, packets, bytes, sources, exceeding, left_out])
}

/// Returns the most important policies with their labels, and how many are left out.
fn most_used(reading: &Reading<'_>) -> Result<(Vec<(String, Use)>, usize), Error> {
    let (rules, tracked) = (&reading.rules.by_policy, &reading.tracked.by_policy);
    let defaults = defaults(reading.view.tables())?;
    let mut slots: Vec<_> = rules.keys().chain(tracked.keys()).copied().collect();
    slots.sort_unstable();
    slots.dedup();
    let mut by_label = BTreeMap::<String, Use>::new();
    for slot in slots {
        let spec = policies::spec(reading.view.tables(), slot)?;
        let of_defaults = defaults.iter().filter(|(policy, _)| *policy == slot).map(|(_, label)| label.clone());
        let limit = if spec.policy.kind == LIMIT { Some(Limit::of(&spec.policy)) } else { None };
        let mut labels: Vec<_> = spec.name().map_or_else(|| of_defaults.collect(), |name| vec![of_name(name)]);
        let of_rules = write::spec(&spec);
        // Limits of single prefixes come and go, and they have no rate in common.
        let (kind, limit) = match (labels.is_empty(), limit) {
            (true, Some(_)) => (LIMITED, None),
            (_, limit) => (of_rules.as_str(), limit),
        };
        if labels.is_empty() {
            labels.push(kind.to_owned());
        }
        // Defaults with the same limit share a slot. The first one counts its rules and sources.
        let mut counted =
            Some((rules.get(&slot).copied().unwrap_or(0), tracked.get(&slot).copied().unwrap_or_default()));
        for label in labels {
            let (rules, (sources, exceeding)) = counted.take().unwrap_or_default();
            let found = by_label.entry(label).or_default();
            *found = Use {
                packets: limit.and_then(|limit| limit.packets),
                bytes: limit.and_then(|limit| limit.bytes),
                rules: found.rules + rules,
                sources: found.sources + sources,
                exceeding: found.exceeding + exceeding,
            };
        }
    }
    let mut all: Vec<_> = by_label.into_iter().collect();
    all.sort_by_key(|(_, found)| Reverse((found.exceeding, found.rules, found.sources)));
    let left_out = all.len().saturating_sub(MOST);
    all.truncate(MOST);
    Ok((all, left_out))
}

/// Returns the label of a policy with a name. A name that is also a label of policies without one is told apart.
fn of_name(name: &str) -> String {
    let is_taken = [LIMITED, "allow", "deny", "ban"].contains(&name) || name.starts_with("default");
    if is_taken { format!("policy.{name}") } else { name.to_owned() }
}

/// Returns the slots of the defaults, each with its label.
fn defaults(tables: &Tables) -> Result<Vec<(PolicyId, String)>, Error> {
    let classes = tables.classes.all()?;
    let limited = classes.into_iter().filter(|entry| entry.default_policy != UNLIMITED_ID);
    let label = |service: Service| match service {
        Service::Any => "default".to_owned(),
        service => format!("default {}", ServiceName(service)),
    };
    Ok(limited.map(|entry| (entry.default_policy, label(entry.service()))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_no_label_of_policies_without_one() {
        for (name, label) in [("web", "web"), ("limit", "policy.limit"), ("default udp/53", "policy.default udp/53")] {
            assert_eq!(of_name(name), label);
        }
    }
}
