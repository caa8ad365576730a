//! Which slot a policy has: rules with the same terms share one.

use std::collections::HashSet;

use ratelimit_common::{
    class::CLASSES,
    map::POLICIES_MAX,
    policy::{ALLOWED_ID, DENIED_ID, Parent, Policy, PolicyId, UNLIMITED_ID},
};

use super::{
    Error,
    error::Tried as _,
    tables::Tables,
    terms::{FAMILIES, ParentLimit, Scope, Terms},
};

/// The slot of a policy with these terms, which is written to a free one if no slot has it yet.
///
/// # Errors
///
/// [`Error::TooManyPolicies`] where every slot is used by a rule; what [`Terms::parents_of`] says.
pub fn intern(tables: &mut Tables, terms: &Terms) -> Result<PolicyId, Error> {
    let families = [terms.parents_of(FAMILIES[0])?, terms.parents_of(FAMILIES[1])?];
    match try_intern(tables, terms, &families)? {
        Some(id) => Ok(id),
        None => {
            // Parents that were written are freed again if there is no room for the policy, so all are looked for anew.
            collect(tables)?;
            try_intern(tables, terms, &families)?.ok_or(Error::TooManyPolicies(POLICIES_MAX))
        }
    }
}

fn try_intern(tables: &mut Tables, terms: &Terms, families: &[Vec<ParentLimit>; 2]) -> Result<Option<PolicyId>, Error> {
    let mut policy = Policy { has_parents: u32::from(!terms.parents.is_empty()), ..terms.policy };
    for (slots, parents) in policy.parents.iter_mut().zip(families) {
        for (slot, parent) in slots.iter_mut().zip(parents) {
            let (scope, prefix) = parent.scope.encoded();
            let Some(id) = place(tables, &parent.policy)? else { return Ok(None) };
            *slot = Parent { policy: id as u16, scope, prefix };
        }
    }
    place(tables, &policy)
}

/// What the policy in a slot says.
///
/// # Errors
///
/// [`Error::Bpf`] where the kernel refuses.
pub fn terms(tables: &Tables, slot: PolicyId) -> Result<Terms, Error> {
    let policy = read(tables, slot)?;
    let mut families = [Vec::new(), Vec::new()];
    for ((family, parents), found) in FAMILIES.iter().zip(&policy.parents).zip(&mut families) {
        for parent in parents {
            if let Some(scope) = Scope::decoded(*family, parent.scope, parent.prefix) {
                found.push(ParentLimit { scope, policy: read(tables, PolicyId::from(parent.policy))? });
            }
        }
    }
    let [v4, v6] = families;
    let own = Policy { has_parents: 0, parents: Default::default(), ..policy };
    Ok(Terms::of_families(own, v4, v6))
}

/// The policy in a slot.
fn read(tables: &Tables, slot: PolicyId) -> Result<Policy, Error> {
    tables.policies.get(&slot, 0).tried("cannot read a policy")
}

/// The slot of exactly this policy; nothing if none has it and none is free.
fn place(tables: &mut Tables, policy: &Policy) -> Result<Option<PolicyId>, Error> {
    for slot in 0..POLICIES_MAX {
        let found = read(tables, slot)?;
        if found == *policy {
            return Ok(Some(slot));
        }
        if found == Policy::default() {
            tables.policies.set(slot, policy, 0).tried("cannot write a policy")?;
            return Ok(Some(slot));
        }
    }
    Ok(None)
}

/// Frees the slots that no rule uses. Whoever still remembers one asks again first.
fn collect(tables: &mut Tables) -> Result<(), Error> {
    tables.renew()?;
    let used = used(tables)?;
    for slot in (0..POLICIES_MAX).filter(|slot| !used.contains(slot)) {
        tables.policies.set(slot, Policy::default(), 0).tried("cannot free a policy")?;
    }
    Ok(())
}

/// Whether the policy of any rule has parents.
///
/// # Errors
///
/// [`Error::Bpf`] where the kernel refuses.
pub fn any_parents(tables: &Tables) -> Result<bool, Error> {
    for slot in used(tables)? {
        if read(tables, slot)?.has_parents != 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The slots that rules use, and those of parents.
fn used(tables: &Tables) -> Result<HashSet<PolicyId>, Error> {
    let mut used = HashSet::from([UNLIMITED_ID, ALLOWED_ID, DENIED_ID]);
    for class in 0..CLASSES {
        used.insert(tables.default_policy(class as u8)?);
    }
    used.extend(tables.source_rules()?.iter().map(|(_, rule)| rule.policy));
    for entry in tables.prefix_rules.iter() {
        used.insert(entry.tried("cannot read the rules")?.1.policy);
    }
    for slot in used.clone() {
        let parents = read(tables, slot)?.parents;
        let parents = parents.as_flattened().iter().filter(|parent| parent.scope != 0);
        used.extend(parents.map(|parent| PolicyId::from(parent.policy)));
    }
    Ok(used)
}
