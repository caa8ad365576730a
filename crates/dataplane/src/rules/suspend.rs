//! What a suspend of the host does to rules and bans with an end.
//!
//! The program's clock stands still while the host is suspended, as its buckets need it. So the first command or daemon
//! after a suspend moves the ends of rules and bans ahead by its duration.

use ratelimit_common::{
    maps::control::Control,
    rules::{list::List, rule::NEVER},
};

use crate::{
    Error,
    error::Tried as _,
    rules::comments,
    sys::host,
    tables::{open::Tables, prefix_key::prefix_key, rule_maps},
};

/// Shorter suspends do not matter. Both clocks are read one after the other.
const LEAST: u64 = 1_000_000_000;

/// Moves ends ahead by the time that the host was suspended since the last time. What cannot be moved ends late.
pub fn catch_up(tables: &mut Tables) -> Result<(), Error> {
    let (control, suspended) = (tables.control()?, host::suspended());
    let missed = suspended.saturating_sub(control.suspended);
    if missed < LEAST {
        return Ok(());
    }
    // First, since moving ends twice would end rules too early.
    tables.set_control(&Control { suspended, ..control })?;
    let moved = move_ends(tables, missed);
    tables.renew()?;
    moved
}

/// Moves the ends of all rules, lists and bans ahead by so many nanoseconds.
fn move_ends(tables: &mut Tables, missed: u64) -> Result<(), Error> {
    let earlier = |expires: u64| if expires == NEVER { NEVER } else { expires.saturating_sub(missed).max(1) };
    for (source, mut rule) in rule_maps::sources(tables)?.into_iter().filter(|(_, rule)| rule.expires != NEVER) {
        rule.expires = earlier(rule.expires);
        tables.source_rules.open_mut()?.insert(source, rule, 0).tried("cannot write a rule")?;
    }
    for (prefix, mut rule) in rule_maps::prefixes(tables)?.into_iter().filter(|(_, rule)| rule.expires != NEVER) {
        rule.expires = earlier(rule.expires);
        tables.prefix_rules.open_mut()?.insert(&prefix_key(&prefix), rule, 0).tried("cannot write a rule")?;
    }
    comments::move_ends(tables, earlier)?;
    tables.bans()?.shorten(missed);
    if tables.control()?.lists != [0; 2] {
        for (slot, list) in (0..).zip(tables.lists.slots()?).filter(|(_, list)| list.expires != NEVER) {
            tables.lists.set_slot(slot, &List { expires: earlier(list.expires), ..list })?;
        }
    }
    let control = tables.control()?;
    if control.clear_after != 0 {
        tables.set_control(&Control { clear_after: earlier(control.clear_after), ..control })?;
    }
    Ok(())
}
