//! Which slot a policy has: rules with the same terms share one.

use std::collections::HashSet;

use ratelimit_common::{
    identity::class::CLASSES,
    limits::{
        algorithm::Algorithm,
        limit::Limit,
        policy::{
            ALLOWED_ID, BANNED_ID, COARSE, DENIED_ID, DROP, HAS_PARENTS, LIMIT, Meter, Parent, Policy, PolicyId,
            REJECT, UNLIMITED_ID,
        },
    },
    maps::{
        control::{
            Control, FEATURE_ACTIONS, FEATURE_COSTS, FEATURE_ELASTIC, FEATURE_PARENTS, FEATURE_REJECT,
            FEATURE_SERVICES, FEATURE_SLIDING_LOGS, FEATURE_SOFT, FEATURE_WINDOWS,
        },
        names::POLICIES_MAX,
    },
    meters::{
        gcra::{self, Units},
        stages,
        window::Window,
    },
};

use crate::dataplane::{
    Error,
    error::Tried as _,
    rules::{
        expiry,
        policy_slots::{self, Slots},
        spec::{FAMILIES, ParentLimit, Scope, Terms},
    },
    sys::rcu,
    tables::open::Tables,
};

/// The slot of a policy with these terms, which is written to a free one if no slot has it yet.
///
/// # Errors
///
/// [`Error::TooManyPolicies`] where every slot is used by a rule; what [`Terms::parents_of`] says.
pub fn intern(tables: &mut Tables, terms: &Terms) -> Result<PolicyId, Error> {
    let mut slots = Slots::read(tables)?;
    intern_first(tables, &mut slots, terms)
}

fn intern_first(tables: &mut Tables, slots: &mut Slots, terms: &Terms) -> Result<PolicyId, Error> {
    match try_intern(tables, slots, terms)? {
        Some(id) => Ok(id),
        None => {
            // Parents that were written are freed again if there is no room for the policy, so all are looked for anew.
            collect(tables)?;
            *slots = Slots::read(tables)?;
            try_intern(tables, slots, terms)?.ok_or(Error::TooManyPolicies(POLICIES_MAX))
        }
    }
}

/// The slots of policies with each of these terms.
///
/// # Errors
///
/// Those of [`intern`].
pub(crate) fn intern_all(tables: &mut Tables, terms: &[Terms]) -> Result<Vec<PolicyId>, Error> {
    // Before any is written: no rule uses those yet.
    if terms.len() > 1 {
        collect(tables)?;
    }
    let mut slots = Slots::read(tables)?;
    let mut ids = Vec::new();
    for terms in terms {
        let id = match ids.is_empty() {
            true => intern_first(tables, &mut slots, terms)?,
            false => try_intern(tables, &mut slots, terms)?.ok_or(Error::TooManyPolicies(POLICIES_MAX))?,
        };
        note_debt(tables, &read(tables, id)?)?;
        if terms.policy.ban.time != 0 {
            expiry::expect(tables)?;
        }
        ids.push(id);
    }
    Ok(ids)
}

fn try_intern(tables: &mut Tables, places: &mut Slots, terms: &Terms) -> Result<Option<PolicyId>, Error> {
    let families = [terms.parents_of(FAMILIES[0])?, terms.parents_of(FAMILIES[1])?];
    let control = tables.control()?;
    let flags = terms.policy.flags | if terms.parents.is_empty() { 0 } else { HAS_PARENTS };
    let mut policy = Policy { flags, ..terms.policy };
    for (slots, parents) in policy.parents.iter_mut().zip(&families) {
        for (slot, parent) in slots.iter_mut().zip(parents) {
            let (scope, prefix) = parent.scope.encoded();
            let Some(id) = places.place(tables, &parent.policy.for_costs(control.most_cost))? else { return Ok(None) };
            *slot = Parent { policy: id as u16, scope, prefix };
        }
    }
    if policy.soft != 0 {
        let allowance = Limit::of(&policy).hundredths(policy.soft)?;
        let Some(id) = places.place(tables, &in_time(allowance, &control))? else { return Ok(None) };
        policy.allowance = id;
    }
    places.place(tables, &in_time(policy, &control).by_ticks(gcra::units(control.tick)))
}

/// The policy with windows that begin with the hours of a day, for the costs of packets.
fn in_time(policy: Policy, control: &Control) -> Policy {
    let windows =
        policy.windows.map(|window| Window { phase: control.wall.checked_rem(window.length).unwrap_or(0), ..window });
    Policy { windows, ..policy }.for_costs(control.most_cost)
}

/// What the policy in a slot says.
///
/// # Errors
///
/// [`Error::Bpf`] where the kernel refuses.
pub fn terms(tables: &Tables, slot: PolicyId) -> Result<Terms, Error> {
    let policy = as_given(read(tables, slot)?);
    let mut families = [Vec::new(), Vec::new()];
    for ((family, parents), found) in FAMILIES.iter().zip(&policy.parents).zip(&mut families) {
        for parent in parents {
            if let Some(scope) = Scope::decoded(*family, parent.scope, parent.prefix) {
                found.push(ParentLimit { scope, policy: as_given(read(tables, PolicyId::from(parent.policy))?) });
            }
        }
    }
    let [v4, v6] = families;
    let own = Policy { flags: policy.flags & !HAS_PARENTS, parents: Default::default(), ..policy };
    Ok(Terms::of_families(own, v4, v6))
}

/// The policy without what only this instance's program needs.
fn as_given(policy: Policy) -> Policy {
    // Parents alone are no limit.
    let Ok(plain) = Limit::of(&policy).policy() else { return policy };
    let Policy { over_limit, elastic, soft, parents, ban, .. } = policy;
    Policy { over_limit, elastic, soft, parents, ban, ..plain }
}

/// The policy in a slot, as the program reads it.
pub(crate) fn read(tables: &Tables, slot: PolicyId) -> Result<Policy, Error> {
    tables.policies.get(&slot, 0).tried("cannot read a policy")
}

/// Frees the slots that no rule uses. Whoever still remembers one asks again first.
fn collect(tables: &mut Tables) -> Result<(), Error> {
    tables.renew()?;
    let used = used(tables)?;
    let is_unused = |(slot, policy): &(PolicyId, Policy)| *policy != Policy::default() && !used.contains(slot);
    for (slot, _) in policy_slots::all(tables)?.into_iter().filter(is_unused) {
        tables.policies.set(slot, Policy::default(), 0).tried("cannot free a policy")?;
    }
    Ok(())
}

/// The features that the policy of any rule needs.
///
/// # Errors
///
/// [`Error::Bpf`] where the kernel refuses.
pub fn features(tables: &Tables) -> Result<u32, Error> {
    used(tables)?.into_iter().try_fold(0, |features, slot| Ok(features | features_of(&read(tables, slot)?)))
}

/// All features that rules need.
pub(crate) const OF_RULES: u32 = FEATURE_SERVICES
    | FEATURE_PARENTS
    | FEATURE_WINDOWS
    | FEATURE_SLIDING_LOGS
    | FEATURE_SOFT
    | FEATURE_ELASTIC
    | FEATURE_ACTIONS
    | FEATURE_REJECT
    | FEATURE_COSTS;

/// The features that a policy needs.
#[must_use]
pub fn features_of(policy: &Policy) -> u32 {
    let algorithm = Algorithm::of(policy.algorithm).unwrap_or_default();
    let bit = |is_needed, feature| if is_needed { feature } else { 0 };
    bit(policy.has_parents(), FEATURE_PARENTS)
        | bit(algorithm.is_window(), FEATURE_WINDOWS)
        | bit(algorithm == Algorithm::SlidingLog, FEATURE_SLIDING_LOGS)
        | bit(policy.soft != 0, FEATURE_SOFT)
        | bit(policy.elastic != 0, FEATURE_ELASTIC | FEATURE_ACTIONS)
        | bit(policy.over_limit != DROP, FEATURE_ACTIONS)
        | bit(policy.over_limit == REJECT, FEATURE_REJECT)
}

/// Works out anew what depends on the costs of packets. Each word of a policy is right by itself meanwhile.
///
/// Where the front part of a burst shrinks, buckets of earlier generations are charged the difference before they are asked: by all packets that may see
/// the smaller part, and until the new generation at each packet, since some may still go by the larger one.
/// What sources may owe never gets less by it: levels that dear packets have allowed stand, and cheap ones are still owed in them.
///
/// # Errors
///
/// [`Error::Bpf`] where the kernel refuses.
pub(crate) fn renew_costs(tables: &mut Tables) -> Result<(), Error> {
    let control = tables.control()?;
    let mut changes = Vec::new();
    for slot in used(tables)? {
        let running = read(tables, slot)?;
        let given = Policy { flags: running.flags & !COARSE, allowance: running.allowance, ..as_given(running) };
        let renewed = in_time(given, &control);
        let renewed = if running.flags & COARSE == 0 { renewed } else { renewed.by_ticks(gcra::units(control.tick)) };
        if running.kind == LIMIT && renewed != running {
            changes.push((slot, running, renewed));
        }
    }
    let is_smaller = |new: &Meter, old: &Meter| new.front < old.front;
    let shrink = changes
        .iter()
        .any(|(_, old, new)| is_smaller(&new.packets, &old.packets) || is_smaller(&new.second, &old.second));
    if shrink {
        let fronts_since = control.generation.wrapping_add(1);
        tables.set_control(&Control { fronts_since, ..control })?;
        rcu::wait();
    }
    for (slot, _, renewed) in changes {
        note_debt(tables, &renewed)?;
        tables.policies.set(slot, renewed, 0).tried("cannot write a policy")?;
    }
    if shrink {
        rcu::wait();
    }
    tables.renew()
}

/// Tells the program of a limit whose sources may owe more than those of all others.
///
/// # Errors
///
/// [`Error::Bpf`] where the kernel refuses.
pub fn note_debt(tables: &mut Tables, policy: &Policy) -> Result<(), Error> {
    let mut control = tables.control()?;
    let largest = largest_debt(policy) + gcra::units(control.tick);
    if largest > control.largest_debt {
        control.largest_debt = largest;
        tables.set_control(&control)?;
    }
    Ok(())
}

/// Works out anew what the sources of all limits in use may owe: what a cell shows beyond that is forgotten.
pub(crate) fn renew_debt(tables: &mut Tables) -> Result<(), Error> {
    let mut largest = 0;
    for slot in used(tables)? {
        largest = largest.max(largest_debt(&read(tables, slot)?));
    }
    let mut control = tables.control()?;
    // One clock may read what was charged by the other a tick later.
    largest += gcra::units(control.tick);
    if control.largest_debt != largest {
        control.largest_debt = largest;
        tables.set_control(&control)?;
    }
    Ok(())
}

/// What the sources of a policy may owe. See [`stages::largest_debt`].
#[must_use]
pub fn largest_debt(policy: &Policy) -> Units {
    stages::largest_debt(&policy.packets).max(stages::largest_debt(&policy.second))
}

/// Whether the policy of any rule bans whoever exceeds it.
pub(crate) fn any_bans(tables: &Tables) -> Result<bool, Error> {
    for slot in used(tables)? {
        if read(tables, slot)?.ban.time != 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The slots that rules use, and those of parents.
fn used(tables: &Tables) -> Result<HashSet<PolicyId>, Error> {
    let mut used = HashSet::from([UNLIMITED_ID, ALLOWED_ID, DENIED_ID, BANNED_ID]);
    for class in 0..CLASSES {
        used.insert(tables.default_policy(class as u8)?);
    }
    used.extend(tables.source_rules()?.iter().map(|(_, rule)| rule.policy));
    used.extend(tables.prefix_rules()?.iter().map(|(_, rule)| rule.policy));
    for slot in used.clone() {
        let Policy { parents, allowance, .. } = read(tables, slot)?;
        used.insert(allowance);
        let parents = parents.as_flattened().iter().filter(|parent| parent.scope != 0);
        used.extend(parents.map(|parent| PolicyId::from(parent.policy)));
    }
    Ok(used)
}
