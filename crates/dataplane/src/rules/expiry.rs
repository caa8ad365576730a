//! Removes expired rules. Those that they cover take their place.

use std::collections::HashSet;

use ratelimit_common::{
    identity::service::Service,
    limits::policy::DENIED_ID,
    rules::{
        comment,
        rule::{NEVER, Rule},
    },
};

use crate::{
    Error,
    error::Tried as _,
    rules::{
        comments, filter,
        policies::largest_debt,
        services::{self, Services},
    },
    sys::host,
    tables::{open::Tables, prefix_key::prefix_key, rule_maps},
};

/// Nanoseconds between two searches for expired rules.
const INTERVAL: u64 = 60 * ratelimit_common::limits::limit::SECOND;

/// Removes expired rules, at most once a minute, because this reads all rules.
pub fn clear(tables: &mut Tables) -> Result<(), Error> {
    let due = tables.control()?.clear_after;
    if due == 0 || host::now() < due {
        return Ok(());
    }
    remove(tables)?;
    services::forget_unused(tables)
}

/// Makes room for services that a change brings: removes those with the same ports whose rules have expired.
pub fn make_way(tables: &mut Tables, wanted: &[Service]) -> Result<(), Error> {
    if !Services::read(tables)?.any_overlaps(wanted) {
        return Ok(());
    }
    remove(tables)?;
    services::forget_unused(tables)
}

/// Removes expired rules. The program skips them, but they take space. Bans need no removal.
///
/// Services without rules keep their classes, because the caller may be about to write a rule for one.
pub fn remove(tables: &mut Tables) -> Result<(), Error> {
    let now = host::now();
    let (mut next, mut gone) = (NEVER, HashSet::new());
    let mut ended = |rule: &Rule| {
        let is_over = rule.expires <= now;
        if is_over {
            gone.insert(rule.policy);
        } else {
            next = next.min(rule.expires);
        }
        is_over
    };
    let (mut sources, mut prefixes) = (rule_maps::sources(tables)?, rule_maps::prefixes(tables)?);
    sources.retain(|(_, rule)| ended(rule));
    prefixes.retain(|(_, rule)| ended(rule));
    let ended = sources.iter().chain(&prefixes);
    let ends = ended.flat_map(|(source, rule)| {
        let own = comment::key(source, rule);
        // What it covers stays, and can have owners too.
        let further = (rule.policy == DENIED_ID).then(|| comment::all_further(source)).into_iter().flatten();
        further.chain([own])
    });
    let ends = ends.collect::<Vec<_>>();
    for (source, rule) in sources {
        match rule.below() {
            Some(below) => rule_maps::set_sources(tables, &[(source, below)])?,
            None => tables.source_rules.open_mut()?.remove(&source).tried("cannot delete a rule")?,
        }
    }
    for (prefix, rule) in prefixes {
        match rule.below() {
            Some(below) => rule_maps::set_prefixes(tables, &[(prefix, below)])?,
            None => {
                tables.prefix_rules.open_mut()?.remove(&prefix_key(&prefix)).tried("cannot delete a rule")?;
            }
        }
    }
    comments::remove(tables, &ends)?;
    largest_debt::renew_without(tables, &gone)?;
    let mut control = tables.control()?;
    control.clear_after = if next == NEVER { 0 } else { next.max(now + INTERVAL) };
    tables.set_control(&control)?;
    filter::renew(tables)
}
