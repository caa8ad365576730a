//! Rules that have ended by themselves.

use ratelimit_common::rules::rule::{NEVER, Rule};

use crate::dataplane::{
    Error,
    error::Tried as _,
    rules::{filter, list, policies, services},
    sys::host,
    tables::open::{self, Tables},
};

/// Nanoseconds between two searches for rules that have ended.
const INTERVAL: u64 = 60 * ratelimit_common::limits::limit::SECOND;

/// Removes rules that have ended, at most once a minute, since all rules are read for it.
pub(crate) fn clear(tables: &mut Tables) -> Result<(), Error> {
    let due = tables.control()?.clear_after;
    if due == 0 || host::now() < due {
        return Ok(());
    }
    remove(tables)?;
    services::forget_unused(tables)
}

/// Has commands search from now on, because the program may make what ends.
pub(crate) fn expect(tables: &mut Tables) -> Result<(), Error> {
    let mut control = tables.control()?;
    if control.clear_after == 0 {
        control.clear_after = host::now() + INTERVAL;
        tables.set_control(&control)?;
    }
    Ok(())
}

/// Removes rules that have ended. The program looks past them, but they take room, and it looks past few. Services that have lost their
/// last rule keep their classes: one may be about to get a rule.
pub(crate) fn remove(tables: &mut Tables) -> Result<(), Error> {
    let now = host::now();
    let mut next = NEVER;
    let mut ended = |rule: &Rule| {
        next = if rule.expires > now { next.min(rule.expires) } else { next };
        rule.expires <= now
    };
    for (source, _) in tables.source_rules()?.into_iter().filter(|(_, rule)| ended(rule)) {
        tables.source_rules.remove(&source).tried("cannot delete a rule")?;
    }
    for (source, _) in tables.bans()?.into_iter().filter(|(_, ban)| ended(ban)) {
        tables.bans.remove(&source).tried("cannot delete a ban")?;
    }
    for (prefix, _) in tables.prefix_rules()?.into_iter().filter(|(_, rule)| ended(rule)) {
        tables.prefix_rules.remove(&open::prefix_key(&prefix)).tried("cannot delete a rule")?;
    }
    let mut control = tables.control()?;
    // Who is banned is not known here before it is.
    let next = if policies::any_bans(tables)? || !tables.bans()?.is_empty() { next.min(now) } else { next };
    control.clear_after = if next == NEVER { 0 } else { next.max(now + INTERVAL) };
    tables.set_control(&control)?;
    filter::renew(tables)?;
    list::forget_narrow(tables)
}
