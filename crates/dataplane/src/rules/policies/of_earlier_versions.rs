//! Policies of an instance that an earlier version has created. That version had no lanes, and its parents went by the
//! precise clock.

use std::collections::BTreeSet;

use ratelimit_common::{
    identity::class::ANY,
    limits::policy::{COARSE, Policy, PolicyId},
    maps::control::FEATURE_FRONT,
    meters::gcra,
};

use crate::{
    Error,
    rules::policies::{
        self,
        lanes::{self, Lanes},
        parts,
    },
    sys::rcu,
    tables::open::Tables,
};

/// Returns the slots of limits other than the default that charge the levels within cells, as in versions without lanes.
pub fn without(tables: &Tables) -> Result<Vec<PolicyId>, Error> {
    if tables.control()?.features & FEATURE_FRONT == 0 {
        return Ok(Vec::new());
    }
    let default = tables.default_policy(ANY)?;
    let mut found = Vec::new();
    for slot in policies::used(tables)?.into_iter().filter(|slot| *slot != default) {
        let policy = tables.policies.get(slot)?;
        if policy.lane() == 0 && policy.has_limits() {
            found.push(slot);
        }
    }
    Ok(found)
}

/// Gives lanes to the limits of [`without`]. Their levels begin with those of the cells.
pub fn assign(tables: &mut Tables) -> Result<(), Error> {
    let mut taken = Lanes::default();
    for slot in policies::used(tables)? {
        taken.take(&tables.policies.get(slot)?);
    }
    for slot in without(tables)? {
        let policy = tables.policies.get(slot)?;
        let (lane, is_first) = taken.choose(&policy);
        let pair = BTreeSet::from([(0, lane)]);
        if is_first {
            lanes::clear(tables, lane)?;
        }
        lanes::raise(tables, &pair)?;
        tables.policies.set(slot, &policy.in_lane(lane))?;
        // Packets have charged the cells since, and some still do.
        rcu::wait();
        lanes::raise(tables, &pair)?;
    }
    Ok(())
}

/// Lets parents and the limits with parents use the coarse clock if they can. Earlier versions did not, and equal
/// parents are one parent only if their policies are equal.
pub fn use_ticks(tables: &mut Tables) -> Result<(), Error> {
    let tick = gcra::units(tables.control()?.tick);
    let mut all = Vec::new();
    for slot in policies::used(tables)? {
        all.push((slot, tables.policies.get(slot)?));
    }
    let parents: BTreeSet<PolicyId> = all.iter().flat_map(|(_, policy)| parts::parents(policy)).collect();
    let mut precise = BTreeSet::new();
    for (slot, policy) in all.iter().filter(|(slot, _)| parents.contains(slot)) {
        if by_ticks(tables, *slot, policy, tick)?.flags & COARSE == 0 {
            precise.insert(*slot);
        }
    }
    for (slot, policy) in all.iter().filter(|(_, policy)| policy.has_parents()) {
        if !parts::parents(policy).any(|parent| precise.contains(&parent)) {
            by_ticks(tables, *slot, policy, tick)?;
        }
    }
    Ok(())
}

/// Lets a policy use the coarse clock if it can.
fn by_ticks(tables: &mut Tables, slot: PolicyId, policy: &Policy, tick: gcra::Units) -> Result<Policy, Error> {
    if policy.flags & COARSE != 0 {
        return Ok(*policy);
    }
    let changed = policy.by_ticks(tick);
    if changed != *policy {
        tables.policies.set(slot, &changed)?;
    }
    Ok(changed)
}
