//! How many there are of what the maps hold, by kinds.

use std::{collections::BTreeMap, os::fd::AsFd as _};

use aya::maps::IterableMap;
use ratelimit_common::{
    buckets::{
        bucket::{Bucket, IN_SHADOW, Resolution},
        sliding_log::Log,
    },
    identity::{class::CLASSES, source::Source},
    limits::policy::{ALLOWED_ID, BANNED_ID, DENIED_ID, Policy, PolicyId, UNLIMITED_ID},
    maps::names::POLICIES_MAX,
    rules::rule::{NEVER, Rule},
};

use crate::dataplane::{
    Error,
    rules::{policies, resolve},
    sys::{bpf, host},
    tables::open::Tables,
};

/// What rules do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// They limit.
    Limit,
    /// They let everything pass.
    Allow,
    /// They let nothing pass; bans are among them.
    Deny,
}

/// Rules, and the entries that they take.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// Those that have not ended, the defaults among them, by what they do and who has made them: an origin of [`ratelimit_common::rules::rule`].
    pub in_force: BTreeMap<(Kind, u8), u64>,
    /// The same by the slots of their policies.
    pub by_policy: BTreeMap<PolicyId, u64>,
    /// Entries for single sources, ended or not.
    pub sources: u64,
    /// Entries for prefixes, ended or not.
    pub prefixes: u64,
    /// Bans, ended or not.
    pub bans: u64,
    /// Slots of policies.
    pub policies: u64,
}

/// Counts them.
///
/// # Errors
///
/// [`Error::Bpf`] where the kernel refuses.
pub fn rules(tables: &Tables) -> Result<Rules, Error> {
    let mut rules = Rules::default();
    for class in 0..CLASSES {
        let entry = tables.class(class as u8)?;
        if entry.default_policy != UNLIMITED_ID {
            *rules.in_force.entry((Kind::Limit, entry.default_origin)).or_default() += 1;
            *rules.by_policy.entry(entry.default_policy).or_default() += 1;
        }
    }
    let now = host::now();
    let mut add = |rule: &Rule| {
        if rule.expires == NEVER || now < rule.expires {
            *rules.in_force.entry((kind(rule.policy), rule.origin)).or_default() += 1;
            *rules.by_policy.entry(rule.policy).or_default() += 1;
        }
    };
    for (map, count) in [
        (IterableMap::map(&tables.source_rules), &mut rules.sources),
        (IterableMap::map(&tables.bans), &mut rules.bans),
    ] {
        bpf::each::<Source, Rule>(map.fd().as_fd(), |_, rule| {
            *count += 1;
            add(&rule);
        })?;
    }
    let prefixes = tables.prefix_rules()?;
    prefixes.iter().for_each(|(_, rule)| add(rule));
    rules.prefixes = prefixes.len() as u64;
    for slot in 0..POLICIES_MAX {
        rules.policies += u64::from(policies::read(tables, slot)? != Policy::default());
    }
    Ok(rules)
}

/// Tracked sources, and the entries that they take.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tracked {
    /// Sources, once for each service of theirs that rules are about.
    pub sources: u64,
    /// Those of them that had packets dropped, or would have in shadow.
    pub exceeding: u64,
    /// Buckets, those of parents among them.
    pub buckets: u64,
    /// Logs.
    pub logs: u64,
    /// Sources, and those of them that had packets dropped, by the slot of the policy that they were judged by last.
    pub by_policy: BTreeMap<PolicyId, (u64, u64)>,
}

impl Tracked {
    fn add(&mut self, bucket: &Bucket, dropped: u64) {
        let exceeds = u64::from(dropped & !IN_SHADOW != 0);
        (self.sources, self.exceeding) = (self.sources + 1, self.exceeding + exceeds);
        let judged = Resolution(bucket.resolution);
        // A source that was just banned is about to be judged anew.
        if judged != Resolution::NONE && judged.policy() < POLICIES_MAX {
            let (sources, exceeding) = self.by_policy.entry(judged.policy()).or_default();
            (*sources, *exceeding) = (*sources + 1, *exceeding + exceeds);
        }
    }
}

/// Counts them without keeping them. Sources that come and go meanwhile may be missed or counted.
///
/// # Errors
///
/// [`Error::Bpf`] where the kernel refuses.
pub fn tracked(tables: &Tables) -> Result<Tracked, Error> {
    let mut tracked = Tracked::default();
    // A source can have both. Where limits keep no logs, this has one entry.
    let mut logs = std::collections::HashMap::new();
    bpf::each::<Source, Log>(IterableMap::map(&tables.logs).fd().as_fd(), |source, log| {
        logs.insert(source, log.bucket);
    })?;
    tracked.logs = logs.len() as u64;
    bpf::each::<Source, Bucket>(IterableMap::map(&tables.buckets).fd().as_fd(), |source, bucket| {
        tracked.buckets += 1;
        let in_log = logs.remove(&source);
        if in_log.is_some() || resolve::is_source(&source, &bucket) {
            tracked.add(&bucket, bucket.dropped_packets | in_log.map_or(0, |log| log.dropped_packets));
        }
    })?;
    logs.values().for_each(|log| tracked.add(log, log.dropped_packets));
    Ok(tracked)
}

/// Rules with the same terms share a slot, and these three have slots of their own.
fn kind(policy: PolicyId) -> Kind {
    match policy {
        ALLOWED_ID => Kind::Allow,
        DENIED_ID | BANNED_ID => Kind::Deny,
        _ => Kind::Limit,
    }
}
