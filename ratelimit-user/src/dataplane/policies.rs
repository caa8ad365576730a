//! Which slot a policy has: rules with the same limit share one.

use std::collections::HashSet;

use ratelimit_common::{
    map::POLICIES_MAX,
    policy::{ALLOWED_ID, DENIED_ID, Policy, PolicyId, UNLIMITED_ID},
};

use super::{Error, error::Tried as _, tables::Tables};

/// The slot of `policy`, which is written to a free one if no slot has it yet.
///
/// # Errors
///
/// [`Error::TooManyPolicies`] where every slot is used by a rule.
pub fn intern(tables: &mut Tables, policy: &Policy) -> Result<PolicyId, Error> {
    let slot = match find(tables, policy)? {
        Some(slot) => slot,
        None => {
            collect(tables)?;
            find(tables, policy)?.ok_or(Error::TooManyPolicies(POLICIES_MAX))?
        }
    };
    if read(tables, slot)? != *policy {
        tables.policies.set(slot, policy, 0).tried("cannot write a policy")?;
    }
    Ok(slot)
}

/// The policy in a slot.
///
/// # Errors
///
/// [`Error::Bpf`] where the kernel refuses.
pub fn read(tables: &Tables, slot: PolicyId) -> Result<Policy, Error> {
    tables.policies.get(&slot, 0).tried("cannot read a policy")
}

/// The slot that has `policy`, or else the first free one.
fn find(tables: &Tables, policy: &Policy) -> Result<Option<PolicyId>, Error> {
    for slot in 0..POLICIES_MAX {
        let found = read(tables, slot)?;
        if found == *policy || found == Policy::default() {
            return Ok(Some(slot));
        }
    }
    Ok(None)
}

/// Frees the slots that no rule uses. Whoever still remembers one asks again first.
fn collect(tables: &mut Tables) -> Result<(), Error> {
    tables.renew()?;
    let control = tables.control()?;
    let mut used = HashSet::from([UNLIMITED_ID, ALLOWED_ID, DENIED_ID, control.default_policy]);
    for entry in tables.source_rules.iter() {
        used.insert(entry.tried("cannot read the rules")?.1.policy);
    }
    for entry in tables.prefix_rules.iter() {
        used.insert(entry.tried("cannot read the rules")?.1.policy);
    }
    for slot in (0..POLICIES_MAX).filter(|slot| !used.contains(slot)) {
        tables.policies.set(slot, Policy::default(), 0).tried("cannot free a policy")?;
    }
    Ok(())
}
