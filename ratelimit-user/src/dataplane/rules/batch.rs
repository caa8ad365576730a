//! Changes many rules at once: all of them, or none.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

use ratelimit_common::{
    identity::{class::ANY, service::Service, source::Source},
    limits::policy::{PolicyId, UNLIMITED_ID},
    rules::rule::{NEVER, Rule},
};

use crate::dataplane::{
    Error, Instance,
    instance::swap::features,
    rules::{
        batch_marker::Underway,
        expiry, filter,
        free_space::{Entry, Existing, Plan, Room},
        list, policies,
        rule_key::{Place, is_narrow},
        services::{self, Services},
        spec::Terms,
        target::{Sources, Target},
    },
    tables::open::{self, Tables},
};

/// Rules that are written in one system call.
const BATCH: usize = 4_096;

/// A rule that is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wish {
    /// What it is about.
    pub target: Target,
    /// Which of the terms it has.
    pub terms: usize,
    /// Nanoseconds of the monotonic clock; [`NEVER`] if it stays.
    pub expires: u64,
    /// An origin of [`ratelimit_common::rules::rule`].
    pub origin: u8,
}

/// What is to change.
#[derive(Debug, Clone, Default)]
pub struct Change {
    /// The terms of rules, each once.
    pub terms: Vec<Terms>,
    /// Rules to be, no two about the same.
    pub wishes: Vec<Wish>,
    /// Rules to delete, none of them wished for.
    pub deleted: Vec<Target>,
    /// Sources whose ban is lifted; their rules stay.
    pub lifted: Vec<Target>,
}

impl Instance {
    /// Makes a change, and returns how many rules said something else before. It tells `progress` how many rules are written or deleted. When all are, `check` has the last word.
    ///
    /// # Errors
    ///
    /// Those of [`Instance::set_rule`], and of `check`; nothing has changed then.
    pub fn change(
        &mut self,
        change: &Change,
        progress: &mut dyn FnMut(usize),
        check: &dyn Fn(&Tables) -> Result<(), Error>,
    ) -> Result<usize, Error> {
        let mut needed = 0;
        let ipv6_prefix = self.tables.control()?.ipv6_prefix as u8;
        for terms in &change.terms {
            self.check_capacity(terms)?;
        }
        for wish in &change.wishes {
            let terms = &change.terms[wish.terms];
            needed |= features::needs(wish.target, terms);
            terms.check(wish.target, ipv6_prefix)?;
        }
        self.look_at(needed)?;
        let outcome = apply(&self.pins, &mut self.tables, change, progress, check);
        if outcome.is_err() || !change.deleted.is_empty() {
            self.spare(policies::OF_RULES);
        }
        outcome
    }
}

fn apply(
    pins: &Path,
    tables: &mut Tables,
    change: &Change,
    progress: &mut dyn FnMut(usize),
    check: &dyn Fn(&Tables) -> Result<(), Error>,
) -> Result<usize, Error> {
    expiry::clear(tables)?;
    let ids = policies::intern_all(tables, &change.terms)?;
    let underway = Underway::begin(pins)?;
    let outcome = plan(tables, change, &ids).and_then(|plan| write(tables, &plan, progress, check));
    tables.renew()?;
    underway.end();
    let replaces_defaults = change.wishes.iter().any(|wish| wish.target.sources == Sources::Default);
    if outcome.is_err() || !change.deleted.is_empty() || replaces_defaults {
        policies::renew_debt(tables)?;
    }
    if outcome.is_err() || !change.deleted.is_empty() {
        list::forget_narrow(tables)?;
        filter::renew(tables)?;
        services::forget_unused(tables)?;
    }
    outcome
}

fn plan(tables: &mut Tables, change: &Change, ids: &[PolicyId]) -> Result<Plan, Error> {
    let ipv6_prefix = tables.control()?.ipv6_prefix;
    let mut plan = Plan::default();
    let mut classes = HashMap::from([(Service::Any, ANY)]);
    for wish in &change.wishes {
        let service = wish.target.service;
        let class = match classes.get(&service) {
            Some(class) => *class,
            None => {
                let class = services::ensure_class(tables, service)?;
                classes.insert(service, class);
                class
            }
        };
        let policy = ids[wish.terms];
        let Sources::Prefix(prefix) = wish.target.sources else {
            plan.defaults.push((class, policy, wish.origin));
            continue;
        };
        let entry = (
            prefix.source().of_class(class),
            Rule { policy, prefix: prefix.bits(), origin: wish.origin, reserved: 0, expires: wish.expires },
        );
        match Place::of(&prefix, class, ipv6_prefix) {
            Place::Source(_) => plan.sources.push(entry),
            Place::Prefix(_) => plan.prefixes.push(entry),
        }
    }
    let services = Services::read(tables)?;
    for target in &change.deleted {
        let Some(class) = services.class(target.service) else { continue };
        match target.sources {
            Sources::Default => plan.defaults.push((class, UNLIMITED_ID, 0)),
            Sources::Prefix(prefix) => {
                plan.deleted.push((prefix.source().of_class(class), Place::of(&prefix, class, ipv6_prefix)));
            }
        }
    }
    for target in &change.lifted {
        if let (Sources::Prefix(prefix), Some(class)) = (target.sources, services.class(target.service)) {
            plan.lifted.push(prefix.source().of_class(class));
        }
    }
    Ok(plan)
}

fn write(
    tables: &mut Tables,
    plan: &Plan,
    progress: &mut dyn FnMut(usize),
    check: &dyn Fn(&Tables) -> Result<(), Error>,
) -> Result<usize, Error> {
    let mut existing = Existing::read(tables)?;
    let room = match existing.room(plan) {
        Err(_) => {
            // What has ended makes room, even if a search is not due yet.
            expiry::remove(tables)?;
            existing = Existing::read(tables)?;
            existing.room(plan)?
        }
        room => room?,
    };
    prepare(tables, plan)?;
    let replaced = existing.replaced(plan);
    let defaults = plan.defaults.iter().map(|(class, ..)| Ok((*class, tables.class(*class)?)));
    let defaults = defaults.collect::<Result<Vec<_>, Error>>()?;
    // Bans come last: what was lifted is not put back.
    let outcome =
        try_write(tables, plan, room, progress).and_then(|()| check(tables)).and_then(|()| lift_bans(tables, plan));
    if outcome.is_err() {
        // The failure itself is what the operator must hear of, not that of undoing.
        let _ = undo(tables, plan, &existing);
        for (class, entry) in defaults {
            let _ = tables.classes.set(u32::from(class), entry, 0);
        }
    }
    outcome.map(|()| replaced)
}

/// Does what must stand before the first rule.
fn prepare(tables: &mut Tables, plan: &Plan) -> Result<(), Error> {
    let mut control = tables.control()?;
    let ends = |entries: &[Entry]| entries.iter().map(|(_, rule)| rule.expires).min().unwrap_or(NEVER);
    let first = ends(&plan.sources).min(ends(&plan.prefixes));
    if first != NEVER && control.clear_after == 0 {
        control.clear_after = first;
    }
    if plan.prefixes.iter().any(|(source, _)| is_narrow(source, control.ipv6_prefix)) {
        control.narrow_rules = 1;
    }
    tables.set_control(&control)?;
    filter::add_all(tables, plan.sources.iter().chain(&plan.prefixes).map(|(source, _)| source))
}

fn try_write(tables: &mut Tables, plan: &Plan, room: Room, progress: &mut dyn FnMut(usize)) -> Result<(), Error> {
    let mut done = 0;
    if room == Room::InPlace {
        delete(tables, plan, &mut done, progress)?;
    }
    for batch in plan.prefixes.chunks(BATCH) {
        tables.set_prefix_rules(batch)?;
        done += batch.len();
        progress(done);
    }
    for batch in plan.sources.chunks(BATCH) {
        tables.set_source_rules(batch)?;
        done += batch.len();
        progress(done);
    }
    for (class, policy, origin) in &plan.defaults {
        tables.set_default_policy(*class, *policy, *origin)?;
    }
    if room == Room::Beside { delete(tables, plan, &mut done, progress) } else { Ok(()) }
}

fn delete(tables: &mut Tables, plan: &Plan, done: &mut usize, progress: &mut dyn FnMut(usize)) -> Result<(), Error> {
    for batch in plan.deleted.chunks(BATCH) {
        batch.iter().try_for_each(|(_, place)| place.remove(tables))?;
        *done += batch.len();
        progress(*done);
    }
    Ok(())
}

/// What the operator says about a source counts.
fn lift_bans(tables: &mut Tables, plan: &Plan) -> Result<(), Error> {
    let bans = tables.bans()?;
    if bans.is_empty() {
        return Ok(());
    }
    let named = plan.sources.iter().chain(&plan.prefixes).map(|(source, _)| source);
    let named: HashSet<&Source> =
        named.chain(plan.deleted.iter().map(|(source, _)| source)).chain(&plan.lifted).collect();
    for (source, _) in bans.iter().filter(|(source, _)| named.contains(source)) {
        list::lift_source(tables, source)?;
    }
    Ok(())
}

/// Puts back what was there, as far as it goes. What was deleted comes last: what was new makes room for it.
fn undo(tables: &mut Tables, plan: &Plan, existing: &Existing) -> Result<(), Error> {
    let Existing { sources, prefixes } = existing;
    for (source, _) in &plan.sources {
        match sources.get(source) {
            Some(rule) => tables.set_source_rules(&[(*source, *rule)])?,
            None => Place::Source(*source).remove(tables)?,
        }
    }
    for (source, _) in &plan.prefixes {
        match prefixes.get(source) {
            Some(rule) => tables.set_prefix_rules(&[(*source, *rule)])?,
            None => Place::Prefix(open::prefix_key(source)).remove(tables)?,
        }
    }
    for (source, _) in &plan.deleted {
        if let Some(rule) = sources.get(source) {
            tables.set_source_rules(&[(*source, *rule)])?;
        }
        if let Some(rule) = prefixes.get(source) {
            tables.set_prefix_rules(&[(*source, *rule)])?;
        }
    }
    Ok(())
}
