//! Removes expired rules.

use std::collections::HashSet;

use ratelimit_common::rules::rule::{NEVER, Rule};

use crate::dataplane::{
    Error,
    error::Tried as _,
    rules::{filter, largest_debt, policies, rule_key, services},
    sys::host,
    tables::{open::Tables, rule_maps},
};

/// Nanoseconds between two searches for expired rules.
const INTERVAL: u64 = 60 * ratelimit_common::limits::limit::SECOND;

/// Removes expired rules, at most once a minute, because this reads all rules.
pub(crate) fn clear(tables: &mut Tables) -> Result<(), Error> {
    let due = tables.control()?.clear_after;
    if due == 0 || host::now() < due {
        return Ok(());
    }
    remove(tables)?;
    services::forget_unused(tables)
}

/// Makes commands search from now on, because the program may make bans.
pub(crate) fn expect(tables: &mut Tables) -> Result<(), Error> {
    let mut control = tables.control()?;
    if control.clear_after == 0 {
        control.clear_after = host::now() + INTERVAL;
        tables.set_control(&control)?;
    }
    Ok(())
}

/// Removes expired rules. The program skips them, but they take space, and it skips only few.
///
/// Services without rules keep their classes, because the caller may be about to write a rule for one.
pub(crate) fn remove(tables: &mut Tables) -> Result<(), Error> {
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
    for (source, _) in rule_maps::sources(tables)?.into_iter().filter(|(_, rule)| ended(rule)) {
        tables.source_rules.open_mut()?.remove(&source).tried("cannot delete a rule")?;
    }
    for (source, _) in tables.bans()?.into_iter().filter(|(_, ban)| ended(ban)) {
        tables.bans.open_mut()?.remove(&source).tried("cannot delete a ban")?;
    }
    for (prefix, _) in rule_maps::prefixes(tables)?.into_iter().filter(|(_, rule)| ended(rule)) {
        tables.prefix_rules.open_mut()?.remove(&rule_maps::prefix_key(&prefix)).tried("cannot delete a rule")?;
    }
    largest_debt::renew_without(tables, &gone)?;
    let mut control = tables.control()?;
    // The end of a coming ban is not known yet.
    let next = if policies::any_bans(tables)? || !tables.bans()?.is_empty() { next.min(now) } else { next };
    control.clear_after = if next == NEVER { 0 } else { next.max(now + INTERVAL) };
    tables.set_control(&control)?;
    filter::renew(tables)?;
    rule_key::forget_narrow(tables)
}
