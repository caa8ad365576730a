//! The clocks that limits use.

use std::collections::HashMap;

use ratelimit_common::{
    identity::class::ANY,
    limits::policy::{COARSE, LIMIT, Policy, PolicyId},
};

use crate::{
    Error,
    sys::host,
    tables::{open::Tables, rule_maps},
};

/// One of the two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// The kernel's ticks.
    Coarse,
    /// To the nanosecond.
    Precise,
}

/// The clocks of the rules in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clocks {
    /// Nanoseconds between two ticks of the coarse clock.
    pub tick: u64,
    /// The clock of the default limit, if there is one.
    pub default: Option<Clock>,
    /// Rules and defaults whose limit uses the coarse clock.
    pub coarse: usize,
    /// Rules and defaults whose limit uses the precise clock.
    pub precise: usize,
}

/// Returns the clocks of all unexpired rules.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn of_rules(tables: &Tables) -> Result<Clocks, Error> {
    // Many rules share few policies.
    let mut rules = HashMap::<PolicyId, usize>::new();
    for entry in tables.classes.all()? {
        *rules.entry(entry.default_policy).or_default() += 1;
    }
    let now = host::now();
    let all = [rule_maps::sources(tables)?, rule_maps::prefixes(tables)?];
    for rule in all.iter().flatten().filter_map(|(_, rule)| rule.at(now)) {
        *rules.entry(rule.policy).or_default() += 1;
    }
    let default = of_policy(&tables.policies.get(tables.default_policy(ANY)?)?);
    let mut clocks = Clocks { tick: tables.control()?.tick, default, coarse: 0, precise: 0 };
    for (slot, count) in rules {
        match of_policy(&tables.policies.get(slot)?) {
            Some(Clock::Coarse) => clocks.coarse += count,
            Some(Clock::Precise) => clocks.precise += count,
            None => {}
        }
    }
    Ok(clocks)
}

/// Returns the clock of a policy. None if it limits nothing.
fn of_policy(policy: &Policy) -> Option<Clock> {
    let limits = policy.has_limits() || policy.has_parents();
    let clock = if policy.flags & COARSE == 0 { Clock::Precise } else { Clock::Coarse };
    (policy.kind == LIMIT && limits).then_some(clock)
}
