//! The policies that another one uses: those of its parents, and of its soft allowance.

use ratelimit_common::limits::policy::{Policy, PolicyId};

/// Returns the slots that a policy uses beside its own: those of its parents and of its soft allowance.
pub fn of(policy: &Policy) -> impl Iterator<Item = PolicyId> + use<> {
    parents(policy).chain((policy.allowance != 0).then_some(policy.allowance))
}

/// Returns the slots of a policy's parents.
pub fn parents(policy: &Policy) -> impl Iterator<Item = PolicyId> + use<> {
    let parents = policy.parents.into_iter().flatten().filter(|parent| parent.scope != 0);
    parents.map(|parent| PolicyId::from(parent.policy))
}
