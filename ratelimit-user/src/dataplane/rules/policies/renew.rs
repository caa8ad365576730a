//! Recomputes the policies in use, after a change of what they depend on beside the limits of the operator.

use ratelimit_common::{
    limits::policy::{COARSE, LIMIT, Policy, PolicyId},
    maps::control::Control,
    meters::{gcra, meter::Meter},
};

use crate::dataplane::{Error, rules::policies, sys::rcu, tables::open::Tables};

/// Recomputes the policies, which depend on the largest cost and on their flags. `flags` gives each its flags. Each word
/// of a policy is valid meanwhile.
///
/// Where the cell's share of a burst shrinks, buckets of earlier generations are charged the difference before they
/// decide: by all packets that may see the smaller share, and until the new generation at each packet, since some may
/// still use the larger share. No debt shrinks: levels of cells that expensive packets have raised stay.
pub(crate) fn all(tables: &mut Tables, flags: impl Fn(PolicyId, u32) -> u32) -> Result<(), Error> {
    let control = tables.control()?;
    let mut changes = Vec::new();
    for slot in policies::used(tables)? {
        let running = tables.policies.get(slot)?;
        let given = Policy {
            flags: flags(slot, running.flags & !COARSE),
            allowance: running.allowance,
            ..policies::as_given(running)
        };
        let renewed = policies::in_time(given, &control);
        let renewed = if running.flags & COARSE == 0 { renewed } else { renewed.by_ticks(gcra::units(control.tick)) };
        if running.kind == LIMIT && renewed != running {
            changes.push((slot, running, renewed));
        }
    }
    let is_smaller = |new: &Meter, old: &Meter| new.cell_share < old.cell_share;
    let shrink = changes
        .iter()
        .any(|(_, old, new)| is_smaller(&new.packets, &old.packets) || is_smaller(&new.second, &old.second));
    if shrink {
        let cell_shares_since = control.generation.wrapping_add(1);
        tables.set_control(&Control { cell_shares_since, ..control })?;
        rcu::wait();
    }
    for (slot, _, renewed) in changes {
        policies::note_debt(tables, &renewed)?;
        tables.policies.set(slot, &renewed)?;
    }
    if shrink {
        rcu::wait();
    }
    tables.renew()
}
