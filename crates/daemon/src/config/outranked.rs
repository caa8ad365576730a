//! Limits of a file that let more packets through than another limit for the same packets, which they outrank.

use std::collections::HashMap;

use ratelimit_common::limits::{limit::Limit, policy::Policy};
use ratelimit_dataplane::rules::{
    overlap::{self, Overlap},
    target::Sources,
};

use super::Planned;
use crate::limit::write;

/// The number of limits that are named.
const NAMED: usize = 5;

/// Returns a line for the first of them.
#[must_use]
pub fn lines(rules: &[Planned]) -> Vec<String> {
    let mut of_sources: HashMap<Sources, Vec<&Planned>> = HashMap::new();
    for rule in rules {
        of_sources.entry(rule.target.sources).or_default().push(rule);
    }
    let defaults = of_sources.get(&Sources::Default).map(Vec::as_slice).unwrap_or_default();
    let is_default = |rule: &Planned| rule.target.sources == Sources::Default;
    let lines = rules.iter().flat_map(|rule| {
        let same = of_sources.get(&rule.target.sources).map(Vec::as_slice).unwrap_or_default();
        let further = if is_default(rule) { &[] } else { defaults };
        let pairs = same.iter().map(move |other| (rule, *other));
        // A rule of a prefix can outrank a default, and the other way around.
        pairs.chain(further.iter().flat_map(move |other| [(rule, *other), (*other, rule)]))
    });
    lines.filter_map(|(rule, other)| line(rule, other)).take(NAMED).collect()
}

/// Returns that one limit takes the place of another, and lets more packets through.
fn line(rule: &Planned, other: &Planned) -> Option<String> {
    let found = overlap::overlap((rule.target, &rule.spec), (other.target, &other.spec));
    (found == Overlap::Outranks && lets_more_through(&rule.spec.policy, &other.spec.policy)).then(|| {
        let is_new = overlap::cross(rule.target.service, other.target.service);
        let packets = if is_new { "new connections" } else { "its packets" };
        let [limit, before] = [rule, other].map(|rule| format!("{}: {}", rule.target, write::spec(&rule.spec)));
        format!("{limit} applies to {packets} in place of {before}, and lets more through")
    })
}

/// Returns whether one limit admits more packets than another.
#[must_use]
pub fn lets_more_through(one: &Policy, other: &Policy) -> bool {
    per_second(one).zip(per_second(other)).is_some_and(|(one, other)| one > other)
}

/// Returns the packets that a limit admits, in a unit that is the same for all.
fn per_second(policy: &Policy) -> Option<u128> {
    let rate = Limit::of(policy).packets?;
    Some(u128::from(rate.amount) * u128::from(u64::MAX) / u128::from(rate.period.max(1)))
}
