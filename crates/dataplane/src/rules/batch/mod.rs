//! Changes rules: all of a batch, or none. A change of one rule is a batch of one.

mod allows;
pub mod applications;
mod bans;
pub mod change;
mod free_space;
mod layers;
mod remarks;
mod write;
pub mod yielding;

use std::{
    collections::{BTreeSet, HashMap},
    path::Path,
    time::Duration,
};

use ratelimit_base::text::prefix::Prefix;
use ratelimit_common::{
    identity::{class::ANY, service::Service},
    limits::policy::{PolicyId, UNLIMITED_ID},
    rules::{
        comment,
        rule::{Covered, Rule},
    },
};

pub use self::change::{Change, Changed, Protected, RequestedRule};
use crate::{
    Error,
    rules::{
        change_mark::ChangeMark,
        expiry, filter,
        policies::{
            self,
            lanes::{self, LanePairs},
            largest_debt,
            slots::Group,
        },
        repair::repair,
        rule_key::Place,
        services::{self, Services},
        spec::RuleSpec,
        target::{Sources, Target},
    },
    tables::open::Tables,
};
use free_space::Plan;
use write::Written;

/// Writes one rule to maps that are not pinned.
///
/// # Errors
///
/// Those of [`apply`].
pub fn set(
    tables: &mut Tables,
    target: Target,
    spec: &RuleSpec,
    life: Option<Duration>,
    origin: u8,
) -> Result<(), Error> {
    apply(None, tables, &Change::set(target, spec, life, origin), &mut |_| {}, &|_| Ok(())).map(drop)
}

/// Deletes one rule from maps that are not pinned.
///
/// # Errors
///
/// Those of [`apply`].
pub fn delete(tables: &mut Tables, target: Target) -> Result<(), Error> {
    apply(None, tables, &Change::delete(target), &mut |_| {}, &|_| Ok(())).map(drop)
}

/// Lifts the ban of one source in maps that are not pinned.
///
/// # Errors
///
/// Those of [`apply`].
pub fn lift_ban(tables: &mut Tables, target: Target) -> Result<(), Error> {
    apply(None, tables, &Change::lift(target), &mut |_| {}, &|_| Ok(())).map(drop)
}

/// Makes a change in the maps and returns what it has done. It acts on the next packet of every source.
///
/// It reports to `progress` how many rules are written or deleted. When all are, `check` decides whether they stay. The
/// caller makes sure that the program looks at what the rules need. `pins` is the folder of pinned maps.
///
/// Rules for applications give way: those that its rules meet, and all of them if there is no room otherwise. If the
/// change fails, they stay.
///
/// # Errors
///
/// [`Error::TooManyRules`], [`Error::TooManyPolicies`] or [`Error::Services`] if there is no space, and those of
/// `check`. Nothing has changed then. [`Error::Written`] if the change is written, but the program may not see it yet.
pub fn apply(
    pins: Option<&Path>,
    tables: &mut Tables,
    change: &Change,
    progress: &mut dyn FnMut(usize),
    check: &dyn Fn(&Tables) -> Result<(), Error>,
) -> Result<Changed, Error> {
    if let Some(pins) = pins.filter(|_| applications::is_for(change)) {
        applications::mark(pins)?;
    }
    let change = &*yielding::yielding(pins, tables, change)?;
    match apply_once(pins, tables, change, progress, check) {
        Err(error) if applications::may_take_the_room(&error) && !applications::is_for(change) => {
            let deleted = applications::all(tables)?;
            if deleted.is_empty() {
                return Err(error);
            }
            let again = applications::again(tables)?;
            let gone = Change { deleted, ..Change::default() };
            apply_once(pins, tables, &gone, &mut |_| {}, &|_| Ok(()))?;
            let outcome = apply_once(pins, tables, change, progress, check);
            if outcome.as_ref().is_err_and(|error| !matches!(error, Error::Written { .. })) && !again.rules.is_empty() {
                // Without the change, they need not give way. What the operator is told is the failure of the change.
                drop(apply_once(pins, tables, &again, &mut |_| {}, &|_| Ok(())));
            }
            outcome
        }
        outcome => outcome,
    }
}

fn apply_once(
    pins: Option<&Path>,
    tables: &mut Tables,
    change: &Change,
    progress: &mut dyn FnMut(usize),
    check: &dyn Fn(&Tables) -> Result<(), Error>,
) -> Result<Changed, Error> {
    let mark = ChangeMark::begin(pins)?;
    let outcome = write(tables, &mark, change, progress, check);
    let finished = match &outcome {
        Ok(written) => {
            tables.renew().map_err(|cause| Error::Written { cause: Box::new(cause) })?;
            finish(tables, change, written)
        }
        Err(_) => repair(tables, &LanePairs::new()),
    };
    // The change acts, or was undone. The mark stays for other steps that fail, and the next command repeats them.
    if finished.is_ok() {
        mark.end();
    }
    outcome.map(|written| written.changed)
}

/// Writes the change, or nothing.
fn write(
    tables: &mut Tables,
    mark: &ChangeMark,
    change: &Change,
    progress: &mut dyn FnMut(usize),
    check: &dyn Fn(&Tables) -> Result<(), Error>,
) -> Result<Written, Error> {
    expiry::clear(tables)?;
    expiry::make_way(tables, &change.services())?;
    let policies = Policies::intern(tables, change)?;
    let plan = plan(tables, change, &policies)?;
    write::write(tables, mark, plan, change.protected, progress, check)
}

/// Recomputes what follows from a change that acts.
fn finish(tables: &mut Tables, change: &Change, written: &Written) -> Result<(), Error> {
    written.remarks.forget(tables)?;
    lanes::raise_again(tables, &written.lanes)?;
    largest_debt::renew_without(tables, &written.gone)?;
    if change.deleted.is_empty() && change.deleted_below.is_empty() {
        return Ok(());
    }
    let is_one = change.rules.len() + change.deleted.len() == 1;
    if change.targets().any(|target| target.sources != Sources::Default) {
        if is_one { filter::renew_if_few(tables)? } else { filter::renew(tables)? }
    }
    if change.targets().any(|target| target.service != Service::Any) { services::forget_unused(tables) } else { Ok(()) }
}

/// The policies of a change.
struct Policies {
    slots: HashMap<(usize, Group), PolicyId>,
    /// Lanes that no limit used before.
    fresh_lanes: BTreeSet<u32>,
}

impl Policies {
    /// Finds or creates the policies of all rules.
    fn intern(tables: &mut Tables, change: &Change) -> Result<Self, Error> {
        let mut keys: Vec<_> = change.rules.iter().map(Self::key).collect();
        keys.sort_unstable();
        keys.dedup();
        let specs: Vec<_> = keys.iter().map(|(spec, group)| (&change.specs[*spec], *group)).collect();
        let (slots, fresh_lanes) = policies::intern(tables, &specs)?;
        Ok(Self { slots: keys.into_iter().zip(slots).collect(), fresh_lanes })
    }

    /// Returns the spec and the group of a rule.
    fn key(rule: &RequestedRule) -> (usize, Group) {
        let group = match rule.target {
            Target::DEFAULT => Group::Default,
            Target { sources: Sources::Default, service } => Group::Service(service),
            _ => Group::Rules,
        };
        (rule.spec, group)
    }

    fn slot(&self, rule: &RequestedRule) -> Result<PolicyId, Error> {
        let missing = || Error::Bpf { what: "policies", detail: "a rule has none".to_owned() };
        self.slots.get(&Self::key(rule)).copied().ok_or_else(missing)
    }
}

/// Translates a change into entries of maps. New services get a class.
fn plan(tables: &mut Tables, change: &Change, policies: &Policies) -> Result<Plan, Error> {
    let ipv6_prefix = tables.control()?.ipv6_prefix;
    let mut plan = Plan {
        fresh_lanes: policies.fresh_lanes.clone(),
        services: change.services(),
        keeps_comments: change.keeps_comments,
        sharing: change.sharing,
        keeps_bans: change.keeps_bans,
        ..Plan::default()
    };
    let known = Services::read(tables)?;
    plan.is_new_service =
        known.any_overlaps(&plan.services) || plan.services.iter().any(|service| known.class(*service).is_none());
    let mut classes = HashMap::from([(Service::Any, ANY)]);
    for rule in &change.rules {
        let service = rule.target.service;
        let class = match classes.get(&service) {
            Some(class) => *class,
            None => {
                let class = services::ensure_class(tables, service)?;
                classes.insert(service, class);
                class
            }
        };
        let policy = policies.slot(rule)?;
        let comment = if change.comments.is_empty() { None } else { change.comments.get(&rule.target) };
        let Sources::Prefix(prefix) = rule.target.sources else {
            plan.defaults.push((class, policy, rule.origin));
            plan.comments.extend(comment.map(|comment| (comment::of_default(class, 0, 0), *comment)));
            continue;
        };
        let entry = (
            prefix.source().of_class(class),
            Rule { policy, prefix: prefix.bits(), origin: rule.origin, covered: Covered::NONE, expires: rule.expires },
        );
        plan.comments.extend(comment.map(|comment| (entry.0, *comment)));
        plan.further.extend(change.owners.get(&rule.target).map(|owners| (entry.0, owners.clone())));
        match Place::of(&prefix, class, ipv6_prefix) {
            Place::Source(_) => plan.sources.push(entry),
            Place::Prefix(_) => plan.prefixes.push(entry),
        }
    }
    let services = Services::read(tables)?;
    let place = |prefix: Prefix, class| (prefix.source().of_class(class), Place::of(&prefix, class, ipv6_prefix));
    for target in &change.deleted {
        let Some(class) = services.class(target.service) else { continue };
        match target.sources {
            Sources::Default => plan.defaults.push((class, UNLIMITED_ID, 0)),
            Sources::Prefix(prefix) => {
                let place = place(prefix, class);
                plan.ended.extend(change.ended.get(target).map(|comment| (place.0, *comment)));
                plan.deleted.push(place);
            }
        }
    }
    for target in &change.deleted_below {
        if let (Sources::Prefix(prefix), Some(class)) = (target.sources, services.class(target.service)) {
            let place = place(prefix, class);
            plan.ended.extend(change.ended.get(target).map(|comment| (place.0, *comment)));
            plan.deleted_below.push(place);
        }
    }
    for target in &change.lifted {
        if let (Sources::Prefix(prefix), Some(class)) = (target.sources, services.class(target.service)) {
            plan.lifted.push(prefix.source().of_class(class));
        }
    }
    Ok(plan)
}
