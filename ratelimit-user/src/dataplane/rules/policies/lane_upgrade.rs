//! Gives lanes to the limits of an instance that a version without lanes has created.

use std::collections::BTreeSet;

use ratelimit_common::{identity::class::ANY, limits::policy::PolicyId, maps::control::FEATURE_FRONT};

use crate::dataplane::{
    Error,
    rules::policies::{
        self,
        lanes::{self, Lanes},
    },
    sys::rcu,
    tables::open::Tables,
};

/// Returns the slots of limits other than the default that charge the levels within cells, as in versions without lanes.
pub(crate) fn without(tables: &Tables) -> Result<Vec<PolicyId>, Error> {
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
pub(crate) fn assign(tables: &mut Tables) -> Result<(), Error> {
    let mut taken = Lanes::default();
    for slot in policies::used(tables)? {
        taken.take(&tables.policies.get(slot)?);
    }
    for slot in without(tables)? {
        let policy = tables.policies.get(slot)?;
        let lane = taken.choose(&policy);
        let pair = BTreeSet::from([(0, lane)]);
        lanes::clear(tables, lane)?;
        lanes::raise(tables, &pair)?;
        tables.policies.set(slot, &policy.in_lane(lane))?;
        // Packets have charged the cells since, and some still do.
        rcu::wait();
        lanes::raise(tables, &pair)?;
    }
    Ok(())
}
