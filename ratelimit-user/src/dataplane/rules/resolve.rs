//! Which terms a source has, worked out as the program does.

use aya::maps::{MapError, lpm_trie::Key};
use ratelimit_common::{
    buckets::bucket::{Bucket, IN_SHADOW},
    identity::{
        class::{ANY, Class, Classes, narrowest, wider},
        source::{IPV6, Source},
    },
    limits::policy::{ALLOWED_ID, DENIED_ID, PolicyId, UNLIMITED_ID},
    rules::rule::Rule,
};

use crate::dataplane::{
    Error,
    error::Tried as _,
    rules::{policies, spec::Terms},
    sys::host,
    tables::open::Tables,
};
use crate::prefix::Prefix;

/// What the rules of one class say to a source.
struct Match {
    policy: PolicyId,
    /// Bits of the rule's prefix and 1; 0 for the default.
    depth: u32,
}

/// The terms of a tracked source, for the packets of its own class, from the rules alone.
///
/// # Errors
///
/// [`Error::Bpf`] where the kernel refuses.
pub fn of_source(tables: &Tables, source: &Source, classes: Classes) -> Result<Terms, Error> {
    policies::terms(tables, policy(tables, source, classes)?)
}

/// Whether a bucket is a source's. Parents have buckets too, and so has a source's service that another is billed for.
#[must_use]
pub fn is_source(source: &Source, bucket: &Bucket) -> bool {
    source.parent == 0 && bucket.passed_packets | bucket.dropped_packets & !IN_SHADOW != 0
}

/// The terms of packets of these classes from one address.
///
/// # Errors
///
/// [`Error::Bpf`] where the kernel refuses.
pub fn of_address(tables: &Tables, address: &Prefix, classes: Classes) -> Result<Terms, Error> {
    let address = address.source();
    let mut prefix = address.bits(tables.control()?.ipv6_prefix as u8);
    // A part of an IPv6 source with a rule is a source of its own.
    for class in each(classes) {
        if let Some(rule) = longest_prefix(tables, &address.of_class(class))?.filter(|_| address.family == IPV6) {
            prefix = prefix.max(rule.prefix);
        }
    }
    of_source(tables, &address.shortened(prefix), classes)
}

/// The classes one by one, [`ANY`] last.
fn each(classes: Classes) -> impl Iterator<Item = Class> {
    std::iter::successors(Some(classes), |classes| (*classes != 0).then_some(wider(*classes))).map(narrowest)
}

fn policy(tables: &Tables, source: &Source, classes: Classes) -> Result<PolicyId, Error> {
    let mut best: Option<Match> = None;
    for class in each(classes) {
        let Some(found) = find(tables, &source.of_class(class), class)? else { continue };
        let is_verdict = [ALLOWED_ID, DENIED_ID].contains(&found.policy);
        if best.as_ref().is_none_or(|best| is_verdict && found.depth > best.depth) {
            best = Some(found);
        }
    }
    Ok(best.map_or(UNLIMITED_ID, |found| found.policy))
}

/// What the rules of a class say to a source: its own, that of the longest prefix, or the default.
fn find(tables: &Tables, source: &Source, class: Class) -> Result<Option<Match>, Error> {
    let ban = found(tables.bans.get(source, 0))?.filter(|ban| host::now() < ban.expires);
    if let Some(ban) = ban {
        return Ok(Some(Match { policy: ban.policy, depth: u32::from(ban.prefix) + 1 }));
    }
    let own = found(tables.source_rules.get(source, 0))?.filter(|rule| host::now() < rule.expires);
    let rule = match own {
        Some(rule) => Some(rule),
        None => longest_prefix(tables, source)?,
    };
    if let Some(rule) = rule {
        return Ok(Some(Match { policy: rule.policy, depth: u32::from(rule.prefix) + 1 }));
    }
    let policy = tables.default_policy(class)?;
    Ok((policy != UNLIMITED_ID || class == ANY).then_some(Match { policy, depth: 0 }))
}

/// The rule of the longest prefix around a source that has not ended.
fn longest_prefix(tables: &Tables, source: &Source) -> Result<Option<Rule>, Error> {
    let mut prefix = Some(source.prefix);
    while let Some(bits) = prefix {
        let (bits, data) = source.prefix_key(bits);
        let Some(rule) = found(tables.prefix_rules.get(&Key::new(bits, data), 0))? else { break };
        if host::now() < rule.expires {
            return Ok(Some(rule));
        }
        prefix = rule.prefix.checked_sub(1);
    }
    Ok(None)
}

fn found(outcome: Result<Rule, MapError>) -> Result<Option<Rule>, Error> {
    match outcome {
        Ok(rule) => Ok(Some(rule)),
        Err(MapError::KeyNotFound) => Ok(None),
        Err(error) => Err(error).tried("cannot read a rule"),
    }
}
