//! Puts shared rules into the maps of the instance, as lists. So each own rule of the host outranks them.

use std::path::Path;

use ratelimit_common::{
    identity::class::ANY,
    limits::{
        limit::Limit,
        policy::{LIMIT, Policy},
    },
    rules::rule::{FLEET, NEVER},
};
use ratelimit_dataplane::{
    Error,
    instance::read_only::View,
    lists::{
        action::Action,
        change::RequestedList,
        entries::Entries,
        listing::{self, BANS},
    },
    rules::{policies, spec::RuleSpec},
    tables::open::Tables,
};

use crate::{
    config::{Planned, shared},
    controller::lists_of_others as lists,
    limit::{within::is_within, write},
};

/// What decides whether shared rules can be in force: the instance by its seed, the generation of its rules, and the
/// shared rules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct State {
    seed: [u64; 4],
    generation: u32,
    rules: Vec<String>,
}

impl State {
    /// Reads it. Rules that change later have another generation.
    pub(super) fn read(pins: &Path, rules: &[Planned]) -> Result<Self, Error> {
        let control = View::open(pins)?.tables().control()?;
        let rules = rules.iter().map(|rule| format!("{} {}", rule.target, write::spec(&rule.spec))).collect();
        Ok(Self { seed: control.seed, generation: control.generation, rules })
    }
}

/// Why shared rules are not in force.
pub(super) enum Refused {
    /// They would admit more than this host does.
    More(String),
    /// The kernel, a session or another command stands in the way.
    Maps(Error),
    /// The same has failed a short time ago.
    Early,
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::Maps(error)
    }
}

/// Why rules are not in force, and in which state that was tried. None if nothing was tried.
pub(super) struct Failed {
    pub(super) tried: Option<State>,
    pub(super) why: Refused,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self { tried: None, why: error.into() }
    }
}

/// Puts these rules in force, unless that was `done` in this state, or the state is one that rests. Returns the state.
pub(super) fn put_unless(
    pins: &Path,
    rules: &[Planned],
    done: Option<&State>,
    resting: Option<&State>,
) -> Result<State, Box<Failed>> {
    let state = State::read(pins, rules).map_err(Failed::from)?;
    if done == Some(&state) {
        return Ok(state);
    }
    if resting == Some(&state) {
        return Err(Box::new(Failed { tried: None, why: Refused::Early }));
    }
    match put(pins, rules) {
        Ok(()) => Ok(state),
        Err(why) => Err(Box::new(Failed { tried: Some(state), why })),
    }
}

/// Checks that these rules admit no more than this host does. Without an instance, they do not.
pub(super) fn check_all(pins: &Path, rules: &[Planned]) -> Result<(), Refused> {
    let view = match View::open(pins) {
        Err(Error::NotAttached(_)) => return Ok(()),
        view => view?,
    };
    let own = own_limit(view.tables())?;
    rules.iter().try_for_each(|rule| check(view.tables(), rule, &own))
}

/// Puts these rules in force in place of other shared ones.
fn put(pins: &Path, rules: &[Planned]) -> Result<(), Refused> {
    let view = View::open(pins)?;
    let tables = view.tables();
    let own = own_limit(tables)?;
    for rule in rules {
        check(tables, rule, &own)?;
    }
    let wanted = wanted(rules, &own);
    let running = listing::all(tables)?;
    let is_in_force = |list: &RequestedList| {
        running.iter().any(|other| {
            let is_alike = other.name == list.name && other.action == list.action && other.origin == FLEET;
            is_alike && other.expires_in.is_none() && other.digest == list.entries.digest()
        })
    };
    let names: Vec<String> = wanted.iter().map(|list| list.name.clone()).collect();
    let set = wanted.into_iter().filter(|list| !is_in_force(list)).collect();
    lists::put(pins, FLEET, set, &|list| list.name != BANS && !names.contains(&list.name))?;
    Ok(())
}

/// Takes back what an earlier daemon has put in force, if it admits more than this host does. Returns whether shared rules
/// stay.
pub(super) fn check_standing(pins: &Path) -> Result<bool, Error> {
    let view = View::open(pins)?;
    let own = own_limit(view.tables())?;
    let admits_more = |list: &listing::Listing| match (&list.action, &own) {
        (Action::Limit(spec), Some(own)) => !is_within(&Limit::of(&spec.policy), &Limit::of(&own.policy)),
        _ => false,
    };
    let all = listing::all(view.tables())?;
    let standing: Vec<_> = all.iter().filter(|list| list.origin == FLEET && list.name != BANS).collect();
    if standing.iter().any(|list| admits_more(list)) {
        lists::put(pins, FLEET, Vec::new(), &|list| list.name != BANS)?;
        return Ok(false);
    }
    Ok(!standing.is_empty())
}

/// Returns the limit of sources without a rule. None if they have none.
fn own_limit(tables: &Tables) -> Result<Option<RuleSpec>, Error> {
    let spec = policies::spec(tables, tables.default_policy(ANY)?)?;
    Ok((spec.policy.kind == LIMIT).then_some(spec))
}

/// Checks that a rule admits no more than sources without a rule may send, nor than another list lets them.
fn check(tables: &Tables, rule: &Planned, own: &Option<RuleSpec>) -> Result<(), Refused> {
    if rule.spec.policy == Policy::DENIED {
        return Ok(());
    }
    let limit = Limit::of(&rule.spec.policy);
    let more = |than: &RuleSpec, whose: &str| {
        let [limit, other] = [&*rule.spec, than].map(write::limit);
        Refused::More(format!("{}: {limit} is more than {whose}, {other}", rule.target))
    };
    if let Some(own) = own.as_ref().filter(|own| !is_within(&limit, &Limit::of(&own.policy))) {
        return Err(more(own, "the default limit of this host"));
    }
    for list in listing::all(tables)?.iter().filter(|list| list.origin != FLEET) {
        if let Action::Limit(spec) = &list.action
            && !is_within(&limit, &Limit::of(&spec.policy))
        {
            return Err(more(spec, &format!("the limit of the list {}", list.name)));
        }
        if let Action::Limit(spec) = &list.action
            && (spec.policy.ban.time != 0 || !spec.parents.is_empty())
        {
            let why = "has a ban or parents, which a shared limit does not keep";
            return Err(Refused::More(format!("{}: the list {} {why}", rule.target, list.name)));
        }
    }
    Ok(())
}

/// Returns the lists of these rules: one of all that deny, and one for each limit. Parents and bans of the host's own limit
/// stay.
fn wanted(rules: &[Planned], own: &Option<RuleSpec>) -> Vec<RequestedList> {
    let mut actions: Vec<(Action, Vec<_>)> = Vec::new();
    for rule in rules {
        let Some(prefix) = shared::prefix(rule) else { continue };
        let action = match rule.spec.policy == Policy::DENIED {
            true => Action::Deny,
            false => {
                let parents = own.as_ref().map(|own| own.parents.clone()).unwrap_or_default();
                let ban = own.as_ref().map(|own| own.policy.ban).unwrap_or_default();
                Action::Limit(Box::new(RuleSpec::new(Policy { ban, ..rule.spec.policy }, parents)))
            }
        };
        match actions.iter_mut().find(|(other, _)| *other == action) {
            Some((_, prefixes)) => prefixes.push(prefix),
            None => actions.push((action, vec![prefix])),
        }
    }
    let mut number = 0;
    let list = |(action, prefixes): (Action, Vec<_>)| {
        number += 1;
        let name = if action == Action::Deny { "fleet:deny".to_owned() } else { format!("fleet:limit-{number}") };
        RequestedList { name, entries: Entries::of(prefixes), action, expires: NEVER, origin: FLEET, file: None }
    };
    actions.into_iter().map(list).collect()
}
