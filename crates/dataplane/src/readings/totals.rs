//! Numbers of rules, policies and tracked sources.

use std::{collections::BTreeMap, os::fd::AsFd as _};

use aya::maps::IterableMap;
use ratelimit_common::{
    buckets::{
        bucket::{Bucket, Resolution},
        sliding_log::Log,
    },
    identity::source::Source,
    limits::policy::{ALLOWED_ID, BANNED_ID, DENIED_ID, FORCED_ID, Policy, PolicyId, UNLIMITED_ID},
    maps::names::POLICIES_MAX,
    rules::rule::{COMMAND, FILLED, Rule},
};

use crate::{
    Error,
    rules::resolve,
    sys::{bpf, host},
    tables::{open::Tables, rule_maps},
};

/// Kinds of rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Rules that limit.
    Limit,
    /// Rules that allow.
    Allow,
    /// Rules that deny, and bans.
    Deny,
}

/// Numbers of rules and of their entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// Unexpired rules and defaults, by kind and origin. Origins are in [`ratelimit_common::rules::rule`].
    pub in_force: BTreeMap<(Kind, u8), u64>,
    /// Unexpired rules and defaults, by the slots of their policies.
    pub by_policy: BTreeMap<PolicyId, u64>,
    /// Entries for single sources, expired or not.
    pub sources: u64,
    /// Entries for prefixes, expired or not.
    pub prefixes: u64,
    /// Bans in force. The places of others are free.
    pub bans: u64,
    /// Used slots of policies.
    pub policies: u64,
}

/// Counts the rules.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn rules(tables: &Tables) -> Result<Rules, Error> {
    let mut rules = Rules::default();
    for entry in tables.classes.all()? {
        if entry.default_policy != UNLIMITED_ID {
            *rules.in_force.entry((Kind::Limit, entry.default_origin)).or_default() += 1;
            *rules.by_policy.entry(entry.default_policy).or_default() += 1;
        }
    }
    let now = host::now();
    let mut add = |rule: &Rule| {
        if let Some(rule) = rule.at(now) {
            // Bans of commands have filled it.
            let origin = if rule.origin == FILLED { COMMAND } else { rule.origin };
            *rules.in_force.entry((kind(rule.policy), origin)).or_default() += 1;
            *rules.by_policy.entry(rule.policy).or_default() += 1;
        }
    };
    bpf::each::<Source, Rule>(IterableMap::map(tables.source_rules.open()?).fd().as_fd(), |_, rule| {
        rules.sources += 1;
        add(&rule);
    })?;
    let bans = tables.bans()?.all();
    bans.iter().for_each(|(_, ban)| add(ban));
    rules.bans = bans.iter().filter(|(_, ban)| now < ban.expires).count() as u64;
    let prefixes = rule_maps::prefixes(tables)?;
    prefixes.iter().for_each(|(_, rule)| add(rule));
    rules.prefixes = prefixes.len() as u64;
    rules.policies = tables.policies.all()?.iter().filter(|policy| **policy != Policy::default()).count() as u64;
    Ok(rules)
}

/// Numbers of tracked sources and of their entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tracked {
    /// Sources, once for each service with rules.
    pub sources: u64,
    /// Sources with dropped packets, also in shadow.
    pub exceeding: u64,
    /// Buckets, also of parents.
    pub buckets: u64,
    /// Sliding logs.
    pub logs: u64,
    /// Sources, and sources with dropped packets, by the slot of the policy that decided last.
    pub by_policy: BTreeMap<PolicyId, (u64, u64)>,
}

impl Tracked {
    fn add(&mut self, bucket: &Bucket, dropped: u64, now: u64) {
        let exceeds = u64::from(dropped != 0);
        (self.sources, self.exceeding) = (self.sources + 1, self.exceeding + exceeds);
        let judged = Resolution(bucket.resolution);
        // A source that was just banned resolves its policy at its next packet. After a ban, other packets need no
        // bucket.
        let is_new = [Resolution::NONE, Resolution::NEW].contains(&judged);
        let is_open = is_new || judged.policy() == BANNED_ID && judged.ends() <= now;
        if !is_open && judged.policy() < POLICIES_MAX {
            let (sources, exceeding) = self.by_policy.entry(judged.policy()).or_default();
            (*sources, *exceeding) = (*sources + 1, *exceeding + exceeds);
        }
    }
}

/// Counts the tracked sources without keeping them. Sources that come or go meanwhile may be missing.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn tracked(tables: &Tables) -> Result<Tracked, Error> {
    let (mut tracked, now) = (Tracked::default(), host::now());
    // A source can have a bucket and a sliding log. If no limit keeps logs, the map has one entry.
    let mut logs = std::collections::HashMap::new();
    bpf::each::<Source, Log>(IterableMap::map(tables.logs.open()?).fd().as_fd(), |source, log| {
        logs.insert(source, log.bucket);
    })?;
    tracked.logs = logs.len() as u64;
    bpf::each::<Source, Bucket>(IterableMap::map(tables.buckets.open()?).fd().as_fd(), |source, bucket| {
        tracked.buckets += 1;
        let in_log = logs.remove(&source);
        if in_log.is_some() || resolve::is_source(&source, &bucket) {
            tracked.add(&bucket, bucket.over_limit() | in_log.map_or(0, |log| log.over_limit()), now);
        }
    })?;
    logs.values().for_each(|log| tracked.add(log, log.over_limit(), now));
    Ok(tracked)
}

/// Returns the kind of a rule. These policies have their own slots.
fn kind(policy: PolicyId) -> Kind {
    match policy {
        ALLOWED_ID => Kind::Allow,
        DENIED_ID | FORCED_ID | BANNED_ID => Kind::Deny,
        _ => Kind::Limit,
    }
}
