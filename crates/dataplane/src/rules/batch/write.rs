//! Writes a planned change to the maps, and undoes it if a step fails.

use std::collections::HashSet;

use ratelimit_common::{
    identity::{class::Class, service::ClassEntry},
    limits::policy::{PolicyId, UNLIMITED_ID},
    rules::{comment, rule::NEVER},
};

use crate::{
    Error,
    rules::{
        batch::{
            allows, bans,
            change::{Changed, Protected},
            free_space::{Entry, Existing, Plan, Room},
            layers,
            remarks::Remarks,
        },
        change_mark::ChangeMark,
        expiry, filter,
        list::{self, Listed},
        policies::{
            self,
            lanes::{self, LanePairs},
        },
        rule_key::Place,
        services,
    },
    sys::host,
    tables::{open::Tables, rule_maps},
};

/// Rules that are written in one system call.
const STEP: usize = 4_096;

/// What a change has done.
pub(super) struct Written {
    /// What the caller is told.
    pub(super) changed: Changed,
    /// The policies of the rules and defaults that it has replaced or deleted.
    pub(super) gone: HashSet<PolicyId>,
    /// The lanes that have taken the place of others.
    pub(super) lanes: LanePairs,
    /// The comments that go with it.
    pub(super) remarks: Remarks,
}

/// Writes a change, or nothing.
///
/// # Errors
///
/// [`Error::TooManyRules`] if there is no space, [`Error::Allowed`] if it would overrule a protected rule, and those of
/// `check`.
pub(super) fn write(
    tables: &mut Tables,
    mark: &ChangeMark,
    mut plan: Plan,
    protected: Protected,
    progress: &mut dyn FnMut(usize),
    check: &dyn Fn(&Tables) -> Result<(), Error>,
) -> Result<Written, Error> {
    let is_all_needed = protected == Protected::Around;
    let existing = if is_all_needed { Existing::read_all(tables) } else { Existing::read(tables, &plan) }?;
    let now = host::now();
    allows::check(tables, &plan, &existing, protected, now)?;
    plan.owners = existing.owners(tables, &plan, now)?;
    let lasting = layers::cover(&mut plan, &existing, now);
    let replaced = replaced(tables, &plan, &existing, now)?;
    layers::uncover(&mut plan, &existing, now);
    for default in &plan.defaults {
        let given = plan.comments.get(&comment::of_default(default.0, 0, 0));
        plan.remarks.default(tables, *default, (given, plan.keeps_comments))?;
    }
    let (lanes, gone, uncommented) = write_planned(tables, mark, &mut plan, &existing, progress, check)?;
    let changed = Changed { replaced, lasting, forgotten: plan.forgotten, uncommented };
    Ok(Written { changed, gone, lanes, remarks: plan.remarks })
}

/// Returns the rules and bans in force that the change replaces.
fn replaced(tables: &Tables, plan: &Plan, existing: &Existing, now: u64) -> Result<Vec<Listed>, Error> {
    let ended = bans::replaced(tables, plan, now)?;
    let mut replaced = list::of_entries(tables, [existing.replaced(plan, now), ended].concat())?;
    for (class, policy, _) in &plan.defaults {
        // A default without a policy is deleted, and not replaced.
        if *policy != UNLIMITED_ID && tables.default_policy(*class)? != *policy {
            replaced.extend(list::default_of(tables, *class)?);
        }
    }
    replaced.sort_by_key(|rule| rule.target);
    Ok(replaced)
}

/// Writes what is settled. Expired rules make space if there is too little. If it is too little even then for comments, a
/// rule *deny* with an end acts without its new comments: packets can make other tools write ever more of them. Returns
/// how many comments and owners were left out, too.
fn write_planned(
    tables: &mut Tables,
    mark: &ChangeMark,
    plan: &mut Plan,
    existing: &Existing,
    progress: &mut dyn FnMut(usize),
    check: &dyn Fn(&Tables) -> Result<(), Error>,
) -> Result<(LanePairs, HashSet<PolicyId>, usize), Error> {
    let all = |(lanes, gone)| (lanes, gone, 0);
    let outcome = existing.room(plan).and_then(|room| write_to(tables, mark, plan, existing, room, progress, check));
    if !matches!(outcome, Err(Error::TooManyRules { .. } | Error::TooManyComments(_))) {
        return outcome.map(all);
    }
    // Even if a search is not due yet.
    expiry::remove(tables)?;
    let existing = Existing::read_all(tables)?;
    let room = existing.room(plan)?;
    let outcome = write_to(tables, mark, plan, &existing, room, progress, check);
    if !matches!(outcome, Err(Error::TooManyComments(_))) {
        return outcome.map(all);
    }
    let uncommented = plan.remarks.leave_out_bans(tables)?;
    if uncommented == 0 {
        return outcome.map(all);
    }
    let (lanes, gone) = write_to(tables, mark, plan, &existing, room, progress, check)?;
    Ok((lanes, gone, uncommented))
}

fn write_to(
    tables: &mut Tables,
    mark: &ChangeMark,
    plan: &Plan,
    existing: &Existing,
    room: Room,
    progress: &mut dyn FnMut(usize),
    check: &dyn Fn(&Tables) -> Result<(), Error>,
) -> Result<(LanePairs, HashSet<PolicyId>), Error> {
    prepare(tables, plan)?;
    let defaults = plan.defaults.iter().map(|(class, ..)| Ok((*class, tables.classes.get(u32::from(*class))?)));
    let defaults: Vec<(Class, ClassEntry)> = defaults.collect::<Result<_, Error>>()?;
    // Bans come last, because a lifted ban is not restored.
    let lanes = changed_lanes(tables, plan, existing, &defaults)?;
    mark.record(&lanes)?;
    lanes::raise(tables, &lanes)?;
    let comments = plan.remarks.set(tables)?;
    let outcome = try_write(tables, plan, room, progress)
        .and_then(|()| services::check_ports(tables, &plan.services))
        .and_then(|()| check(tables))
        .and_then(|()| bans::lift(tables, plan));
    if outcome.is_err() {
        // The operator must see the failure itself, not one of undoing.
        let _ = undo(tables, plan, existing);
        let _ = comments.restore(tables);
        for (class, entry) in &defaults {
            let _ = tables.classes.set(u32::from(*class), entry);
        }
    }
    let before = existing.policies(plan).chain(defaults.iter().map(|(_, entry)| entry.default_policy));
    let gone = &before.collect::<HashSet<_>>() - &plan.policies();
    outcome.map(|()| (lanes, gone))
}

/// Returns the pairs of an old lane and a new one that no rule uses yet, of rules that get another policy.
fn changed_lanes(
    tables: &Tables,
    plan: &Plan,
    existing: &Existing,
    defaults: &[(Class, ClassEntry)],
) -> Result<LanePairs, Error> {
    let (mut lanes, mut in_use) = (LanePairs::new(), None);
    let of_classes = plan.defaults.iter().zip(defaults).map(|((_, new, _), (_, old))| (old.default_policy, *new));
    for (old, new) in existing.changed_policies(plan).chain(of_classes) {
        let (old, new) = (tables.policies.get(old)?, tables.policies.get(new)?);
        if !old.has_limits() || old.lane() == new.lane() || new.lane() == 0 {
            continue;
        }
        // A limit keeps its lane for some time after its last rule.
        let is_free = plan.fresh_lanes.contains(&new.lane()) || {
            let in_use: &HashSet<u32> = match &mut in_use {
                Some(in_use) => in_use,
                None => in_use.insert(policies::lanes_in_use(tables)?),
            };
            !in_use.contains(&new.lane())
        };
        if is_free {
            lanes.insert((old.lane(), new.lane()));
        }
    }
    Ok(lanes)
}

/// Writes what must be in force before the first rule.
fn prepare(tables: &mut Tables, plan: &Plan) -> Result<(), Error> {
    let before = tables.control()?;
    let mut control = before;
    let ends = |entries: &[Entry]| entries.iter().map(|(_, rule)| rule.expires).min().unwrap_or(NEVER);
    let first = ends(&plan.sources).min(ends(&plan.prefixes));
    if first != NEVER && control.clear_after == 0 {
        control.clear_after = first;
    }
    if control != before {
        tables.set_control(&control)?;
    }
    filter::add(tables, plan.sources.iter().chain(&plan.prefixes).map(|(source, _)| source))
}

fn try_write(tables: &mut Tables, plan: &Plan, room: Room, progress: &mut dyn FnMut(usize)) -> Result<(), Error> {
    let mut done = 0;
    if room == Room::InPlace {
        delete_rules(tables, plan, &mut done, progress)?;
    }
    for step in plan.prefixes.chunks(STEP) {
        rule_maps::set_prefixes(tables, step)?;
        done += step.len();
        progress(done);
    }
    for step in plan.sources.chunks(STEP) {
        rule_maps::set_sources(tables, step)?;
        done += step.len();
        progress(done);
    }
    for (class, policy, origin) in &plan.defaults {
        tables.set_default_policy(*class, *policy, *origin)?;
    }
    // Rules of a new service are there before its packets, and those of a service that it replaces are still there.
    if plan.is_new_service {
        services::tell_apart(tables, &plan.services)?;
    }
    if room == Room::InPlace {
        return Ok(());
    }
    // A packet that has found a part of its source by a rule that goes now sees from this that rules have changed.
    if !plan.deleted.is_empty() && tables.control()?.narrow_rules != 0 {
        tables.renew()?;
    }
    delete_rules(tables, plan, &mut done, progress)
}

fn delete_rules(
    tables: &mut Tables,
    plan: &Plan,
    done: &mut usize,
    progress: &mut dyn FnMut(usize),
) -> Result<(), Error> {
    for step in plan.deleted.chunks(STEP) {
        step.iter().try_for_each(|(_, place)| place.remove(tables))?;
        *done += step.len();
        progress(*done);
    }
    Ok(())
}

/// Restores what was there. Deleted rules come last: removing new ones makes space for them.
fn undo(tables: &mut Tables, plan: &Plan, existing: &Existing) -> Result<(), Error> {
    let Existing { sources, prefixes, .. } = existing;
    for (source, _) in &plan.sources {
        match sources.get(source) {
            Some(rule) => rule_maps::set_sources(tables, &[(*source, *rule)])?,
            None => Place::Source(*source).remove(tables)?,
        }
    }
    for (source, _) in &plan.prefixes {
        match prefixes.get(source) {
            Some(rule) => rule_maps::set_prefixes(tables, &[(*source, *rule)])?,
            None => Place::prefix(source).remove(tables)?,
        }
    }
    for (source, _) in &plan.deleted {
        if let Some(rule) = sources.get(source) {
            rule_maps::set_sources(tables, &[(*source, *rule)])?;
        }
        if let Some(rule) = prefixes.get(source) {
            rule_maps::set_prefixes(tables, &[(*source, *rule)])?;
        }
    }
    Ok(())
}
