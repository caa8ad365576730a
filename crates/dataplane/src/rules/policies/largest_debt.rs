//! The largest debt of the limits in use, after limits have ended.

use std::collections::HashSet;

use ratelimit_common::{limits::policy::PolicyId, meters::gcra};

use crate::{
    Error,
    rules::policies::{self, parts},
    tables::open::Tables,
};

/// Recomputes the largest debt if one of these policies had it. Rules that used them were deleted or replaced.
pub fn renew_without(tables: &mut Tables, gone: &HashSet<PolicyId>) -> Result<(), Error> {
    let control = tables.control()?;
    let defaults: HashSet<_> = tables.classes.all()?.iter().map(|entry| entry.default_policy).collect();
    let mut largest = 0;
    // A policy that is still a default changes nothing. Whether rules still have one is not known without reading all.
    for slot in gone.difference(&defaults) {
        let policy = tables.policies.get(*slot)?;
        largest = largest.max(policies::largest_debt(&policy));
        for part in parts::of(&policy) {
            largest = largest.max(policies::largest_debt(&tables.policies.get(part)?));
        }
    }
    let had_largest = largest != 0 && largest + gcra::units(control.tick) >= control.largest_debt;
    if had_largest { policies::renew_debt(tables) } else { Ok(()) }
}
