//! By which clock limits are asked.

use std::collections::HashMap;

use ratelimit_common::{
    identity::class::{ANY, CLASSES},
    limits::policy::{COARSE, LIMIT, Policy, PolicyId},
};

use crate::dataplane::{Error, rules::policies, sys::host, tables::open::Tables};

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
    /// That of the default limit, if there is one.
    pub default: Option<Clock>,
    /// Rules with a limit, defaults among them, by the coarse clock.
    pub coarse: usize,
    /// The same by the precise clock.
    pub precise: usize,
}

/// The clocks of all rules that have not ended.
///
/// # Errors
///
/// [`Error::Bpf`] where the kernel refuses.
pub fn of_rules(tables: &Tables) -> Result<Clocks, Error> {
    // Many rules share few policies.
    let mut rules = HashMap::<PolicyId, usize>::new();
    for class in 0..CLASSES {
        *rules.entry(tables.default_policy(class as u8)?).or_default() += 1;
    }
    let now = host::now();
    let all = [tables.source_rules()?, tables.prefix_rules()?];
    for rule in all.iter().flatten().map(|(_, rule)| rule).filter(|rule| now < rule.expires) {
        *rules.entry(rule.policy).or_default() += 1;
    }
    let default = of_policy(&policies::read(tables, tables.default_policy(ANY)?)?);
    let mut clocks = Clocks { tick: tables.control()?.tick, default, coarse: 0, precise: 0 };
    for (slot, count) in rules {
        match of_policy(&policies::read(tables, slot)?) {
            Some(Clock::Coarse) => clocks.coarse += count,
            Some(Clock::Precise) => clocks.precise += count,
            None => {}
        }
    }
    Ok(clocks)
}

/// The clock of a policy; none if it limits nothing.
fn of_policy(policy: &Policy) -> Option<Clock> {
    let limits = policy.has_limits() || policy.has_parents();
    let clock = if policy.flags & COARSE == 0 { Clock::Precise } else { Clock::Coarse };
    (policy.kind == LIMIT && limits).then_some(clock)
}
