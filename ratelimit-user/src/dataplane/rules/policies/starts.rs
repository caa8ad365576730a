//! Policies whose sources begin with a part of the burst, because a fleet divides it.

use std::collections::HashSet;

use ratelimit_common::{
    identity::class::ANY,
    limits::policy::{LIMIT, Policy, PolicyId, STARTS_SMALL},
};

use crate::dataplane::{
    Error,
    rules::policies::{self, parts, renew},
    tables::open::Tables,
};

/// Which policies begin with a part of the burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Starts {
    /// None.
    Whole,
    /// That of sources without a rule.
    OfDefault,
    /// All buckets, except those of lists and parents.
    OfAll,
}

/// Returns whether this is how policies begin.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn are(tables: &Tables, starts: Starts) -> Result<bool, Error> {
    let small = small(tables, starts)?;
    let is_wrong = |(slot, policy): &(PolicyId, Policy)| {
        policy.kind == LIMIT && (policy.flags & STARTS_SMALL != 0) != small.contains(slot)
    };
    let wrong: Vec<_> = (0..).zip(tables.policies.all()?).filter(is_wrong).map(|(slot, _)| slot).collect();
    if wrong.is_empty() {
        return Ok(true);
    }
    // Policies that no rule uses any more may stay as they are.
    let used = policies::used(tables)?;
    Ok(!wrong.iter().any(|slot| used.contains(slot)))
}

/// Sets how policies begin. The caller has marked the change.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub(in crate::dataplane) fn set(tables: &mut Tables, starts: Starts) -> Result<(), Error> {
    let small = small(tables, starts)?;
    renew::all(tables, |slot, flags| if small.contains(&slot) { flags | STARTS_SMALL } else { flags & !STARTS_SMALL })
}

/// Returns the policies that begin with a part of the burst.
fn small(tables: &Tables, starts: Starts) -> Result<HashSet<PolicyId>, Error> {
    let all = tables.policies.all()?;
    let is_bucket = |policy: &Policy| policy.kind == LIMIT && policy.is_bucket();
    let mut small: HashSet<PolicyId> = match starts {
        Starts::Whole => HashSet::new(),
        Starts::OfDefault => HashSet::from([tables.default_policy(ANY)?]),
        Starts::OfAll => (0..).zip(&all).map(|(slot, _)| slot).collect(),
    };
    if starts == Starts::OfAll {
        let of_lists: HashSet<PolicyId> = tables.lists.slots()?.iter().map(|list| list.policy).collect();
        let of_others: HashSet<PolicyId> = all.iter().flat_map(parts::of).collect();
        small.retain(|slot| !of_lists.contains(slot) && !of_others.contains(slot));
    }
    small.retain(|slot| all.get(*slot as usize).is_some_and(is_bucket));
    Ok(small)
}
