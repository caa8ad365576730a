//! The slots of policies, and the features that policies need. Rules with equal specs share a slot.
//!
//! A packet first finds the number of its policy, in a rule or in a bucket, and then reads the policy in that slot. So
//! a slot that no rule uses any more may still be read: by packets that found its number before, and by packets whose
//! bucket has it. Three steps free a slot for another policy:
//!
//! 1. The next generation begins. A later packet does not take the number from its bucket, but from a rule.
//! 2. A grace period passes. The program runs in one RCU read section per packet, so each packet that found the number
//!    has ended.
//! 3. The slot is emptied. A new policy is written only to an empty slot.
//!
//! A killed command leaves steps out only from the end. The next one that needs slots starts again with the first.

pub mod lanes;
pub mod largest_debt;
pub mod levels;
pub mod of_earlier_versions;
pub mod parts;
pub mod slots;

use std::collections::{BTreeSet, HashSet};

use ratelimit_common::{
    identity::parent::Parent,
    limits::{
        algorithm::Algorithm,
        limit::Limit,
        policy::{
            ALLOWED_ID, BANNED_ID, COARSE, DENIED_ID, DROP, FORCED_ID, HAS_PARENTS, Policy, PolicyId, REJECT,
            UNLIMITED_ID,
        },
    },
    maps::{
        control::{
            Control, FEATURE_ACTIONS, FEATURE_BANS, FEATURE_BYTES, FEATURE_COSTS, FEATURE_ELASTIC, FEATURE_LANES,
            FEATURE_LISTS, FEATURE_PARENTS, FEATURE_REJECT, FEATURE_SERVICES, FEATURE_SLIDING_LOGS, FEATURE_SOFT,
            FEATURE_WINDOWS,
        },
        names::POLICIES_MAX,
    },
    meters::{
        gcra::{self, Units},
        stages,
        window::Window,
    },
    rules::list::List,
};

use crate::{
    Error,
    rules::{
        policies::slots::{Group, Slots},
        spec::{FAMILIES, ParentLimit, RuleSpec, Scope},
    },
    sys::rcu,
    tables::{open::Tables, rule_maps},
};

/// Returns the slots of the policies with these specs in their groups, and the lanes that no limit used before.
/// Policies without a slot get one.
///
/// # Errors
///
/// [`Error::TooManyPolicies`] if rules use every slot. Those of [`RuleSpec::parents_of`].
pub fn intern(tables: &mut Tables, specs: &[(&RuleSpec, Group)]) -> Result<(Vec<PolicyId>, BTreeSet<u32>), Error> {
    // Freed before the first is written, because no rule uses those yet.
    if specs.len() > 1 {
        collect(tables)?;
    }
    let mut ids = Vec::new();
    if specs.is_empty() {
        return Ok((ids, BTreeSet::new()));
    }
    let mut slots = Slots::read(tables)?;
    if slots.lacks_lanes(specs.len()) {
        collect(tables)?;
        slots = Slots::read(tables)?;
    }
    for (spec, group) in specs {
        let id = match try_intern(tables, &mut slots, spec, *group)? {
            Some(id) => id,
            None if ids.is_empty() => {
                // This also frees the parents that were just written, so all are looked up again.
                collect(tables)?;
                slots = Slots::read(tables)?;
                try_intern(tables, &mut slots, spec, *group)?.ok_or(Error::TooManyPolicies(POLICIES_MAX))?
            }
            None => return Err(Error::TooManyPolicies(POLICIES_MAX)),
        };
        let policy = tables.policies.get(id)?;
        for slot in parts::of(&policy) {
            note_debt(tables, &tables.policies.get(slot)?)?;
        }
        note_debt(tables, &policy)?;
        ids.push(id);
    }
    Ok((ids, slots.into_fresh()))
}

fn try_intern(tables: &mut Tables, all: &mut Slots, spec: &RuleSpec, group: Group) -> Result<Option<PolicyId>, Error> {
    let families = [spec.parents_of(FAMILIES[0])?, spec.parents_of(FAMILIES[1])?];
    let control = tables.control()?;
    let tick = gcra::units(control.tick);
    let mut has_precise_parent = false;
    let flags = spec.policy.flags | if spec.parents.is_empty() { 0 } else { HAS_PARENTS };
    let mut policy = Policy { flags, ..spec.policy };
    for (slots, parents) in policy.parents.iter_mut().zip(&families) {
        for (slot, parent) in slots.iter_mut().zip(parents) {
            let (scope, prefix) = parent.scope.encoded();
            let policy = parent.policy.for_costs(control.most_cost).by_ticks(tick);
            has_precise_parent |= policy.flags & COARSE == 0;
            let Some(id) = all.slot_of(tables, &policy, Group::Parts)? else { return Ok(None) };
            *slot = Parent { policy: id as u16, scope, prefix };
        }
    }
    if policy.soft != 0 {
        let allowance = Limit::of(&policy).hundredths(policy.soft)?;
        let Some(id) = all.slot_of(tables, &in_time(allowance, &control), Group::Parts)? else { return Ok(None) };
        policy.allowance = id;
    }
    let policy = in_time(policy, &control);
    all.slot_of(tables, &if has_precise_parent { policy } else { policy.by_ticks(tick) }, group)
}

/// Returns the policy with windows aligned to the hours of the day, and with space for the largest cost of a packet.
pub fn in_time(policy: Policy, control: &Control) -> Policy {
    let windows =
        policy.windows.map(|window| Window { phase: control.wall.checked_rem(window.length).unwrap_or(0), ..window });
    Policy { windows, ..policy }.for_costs(control.most_cost)
}

/// Returns the spec of the policy in a slot.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn spec(tables: &Tables, slot: PolicyId) -> Result<RuleSpec, Error> {
    let policy = as_given(tables.policies.get(slot)?);
    let mut families = [Vec::new(), Vec::new()];
    for ((family, parents), found) in FAMILIES.iter().zip(&policy.parents).zip(&mut families) {
        for parent in parents {
            if let Some(scope) = Scope::decoded(*family, parent.scope, parent.prefix) {
                found
                    .push(ParentLimit { scope, policy: as_given(tables.policies.get(PolicyId::from(parent.policy))?) });
            }
        }
    }
    let [v4, v6] = families;
    let own = Policy { flags: policy.flags & !HAS_PARENTS, parents: Default::default(), ..policy };
    Ok(RuleSpec::of_families(own, v4, v6))
}

/// Returns the policy as the operator gave it, without what this instance's program needs.
pub fn as_given(policy: Policy) -> Policy {
    let policy = policy.in_lane(0);
    // A policy can have parents without a limit of its own.
    let Ok(plain) = Limit::of(&policy).policy() else { return Policy { flags: policy.flags & !COARSE, ..policy } };
    let Policy { over_limit, elastic, soft, parents, ban, name, .. } = policy;
    Policy { over_limit, elastic, soft, parents, ban, name, ..plain }
}

/// Frees the slots that no rule uses, in the three steps of this module.
fn collect(tables: &mut Tables) -> Result<(), Error> {
    let used = used(tables)?;
    let is_unused = |(slot, policy): &(PolicyId, Policy)| *policy != Policy::default() && !used.contains(slot);
    let unused: Vec<_> = (0..).zip(tables.policies.all()?).filter(is_unused).map(|(slot, _)| slot).collect();
    if unused.is_empty() {
        return Ok(());
    }
    tables.renew()?;
    rcu::wait();
    unused.into_iter().try_for_each(|slot| tables.policies.set(slot, &Policy::default()))
}

/// Returns the features that the policies of all rules need.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn features(tables: &Tables) -> Result<u32, Error> {
    used(tables)?.into_iter().try_fold(0, |features, slot| Ok(features | features_of(&tables.policies.get(slot)?)))
}

/// All features that rules and lists can need.
pub const OF_RULES: u32 = FEATURE_SERVICES
    | FEATURE_LANES
    | FEATURE_PARENTS
    | FEATURE_WINDOWS
    | FEATURE_SLIDING_LOGS
    | FEATURE_SOFT
    | FEATURE_ELASTIC
    | FEATURE_ACTIONS
    | FEATURE_REJECT
    | FEATURE_COSTS
    | FEATURE_BYTES
    | FEATURE_BANS
    | FEATURE_LISTS;

/// Returns the features that a policy needs.
#[must_use]
pub fn features_of(policy: &Policy) -> u32 {
    let algorithm = Algorithm::of(policy.algorithm).unwrap_or_default();
    let bit = |is_needed, feature| if is_needed { feature } else { 0 };
    bit(policy.has_parents(), FEATURE_PARENTS | FEATURE_LANES)
        | bit(algorithm.is_window(), FEATURE_WINDOWS)
        | bit(algorithm == Algorithm::SlidingLog, FEATURE_SLIDING_LOGS)
        | bit(policy.limits_bytes(), FEATURE_BYTES)
        | bit(policy.soft != 0, FEATURE_SOFT | FEATURE_LANES)
        | bit(policy.lane() != 0, FEATURE_LANES)
        | bit(policy.elastic != 0, FEATURE_ELASTIC | FEATURE_ACTIONS)
        | bit(policy.over_limit != DROP, FEATURE_ACTIONS)
        | bit(policy.over_limit == REJECT, FEATURE_REJECT)
        | bit(policy.ban.time != 0, FEATURE_BANS)
}

/// Raises the largest debt for a limit whose sources can owe more than those of all others.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn note_debt(tables: &mut Tables, policy: &Policy) -> Result<(), Error> {
    let (mut control, own) = (tables.control()?, largest_debt(policy));
    let largest = own + gcra::units(control.tick);
    if own != 0 && largest > control.largest_debt {
        control.largest_debt = largest;
        tables.set_control(&control)?;
    }
    Ok(())
}

/// Recomputes the largest debt of all limits in use. The program ignores higher levels of cells.
pub fn renew_debt(tables: &mut Tables) -> Result<(), Error> {
    let mut largest = 0;
    for slot in used(tables)? {
        largest = largest.max(largest_debt(&tables.policies.get(slot)?));
    }
    let mut control = tables.control()?;
    if largest == 0 && control.largest_debt == 0 {
        // It stays 0 until the first limit.
        return Ok(());
    }
    let charged = largest.saturating_sub(gcra::SLACK);
    // One clock may read a tick later what was charged by the other.
    largest += gcra::units(control.tick);
    if largest < control.largest_debt {
        // Packets in flight may charge by a limit that has ended.
        rcu::wait();
        levels::lower(tables, charged)?;
    }
    if control.largest_debt != largest {
        control.largest_debt = largest;
        tables.set_control(&control)?;
    }
    Ok(())
}

/// Returns the largest debt that sources of a policy can have, by [`stages::largest_debt`].
#[must_use]
pub fn largest_debt(policy: &Policy) -> Units {
    stages::largest_debt(&policy.packets).max(stages::largest_debt(&policy.second))
}

/// Returns the lanes of the policies that rules use.
pub fn lanes_in_use(tables: &Tables) -> Result<HashSet<u32>, Error> {
    used(tables)?.into_iter().map(|slot| Ok(tables.policies.get(slot)?.lane())).collect()
}

/// Returns the slots that rules use, also as parents.
pub fn used(tables: &Tables) -> Result<HashSet<PolicyId>, Error> {
    let mut used = HashSet::from([UNLIMITED_ID, ALLOWED_ID, DENIED_ID, BANNED_ID, FORCED_ID]);
    used.extend(tables.classes.all()?.iter().map(|entry| entry.default_policy));
    let [even, odd] = tables.control()?.lists;
    if even | odd != 0 {
        let in_force = |(slot, _): &(u32, List)| (even | odd) >> slot & 1 != 0;
        used.extend((0..).zip(tables.lists.slots()?).filter(in_force).map(|(_, list)| list.policy));
    }
    used.extend(rule_maps::sources(tables)?.iter().flat_map(|(_, rule)| rule.policies()));
    used.extend(rule_maps::prefixes(tables)?.iter().flat_map(|(_, rule)| rule.policies()));
    for slot in used.clone() {
        used.extend(parts::of(&tables.policies.get(slot)?));
    }
    Ok(used)
}
