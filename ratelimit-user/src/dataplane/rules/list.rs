//! Sets, deletes and lists rules. A change acts on the next packet of every source, tracked or not.
//!
//! This is about the maps alone: [`crate::dataplane::Instance`] also sees to it that the program looks at what a rule needs.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
    time::Duration,
};

use aya::maps::MapError;
use ratelimit_common::{
    identity::{
        class::{ANY, Class},
        service::Service,
        source::Source,
    },
    limits::policy::{PolicyId, UNLIMITED_ID},
    rules::rule::{NEVER, Rule},
};

use crate::dataplane::{
    Error,
    error::Tried as _,
    rules::{
        expiry, filter, policies,
        rule_key::{Place, is_narrow, missing},
        services::{self, Services},
        spec::Terms,
        target::{Sources, Target},
    },
    sys::host,
    tables::open::Tables,
};
use crate::prefix::Prefix;

/// A rule with all that it says.
#[derive(Debug, Clone)]
pub struct Listed {
    /// What it is about.
    pub target: Target,
    /// What is done. Many rules share it.
    pub terms: Arc<Terms>,
    /// Time until it ends by itself.
    pub expires_in: Option<Duration>,
    /// Who made it: an origin of [`ratelimit_common::rules::rule`].
    pub origin: u8,
}

/// Gives `target` these terms, replacing its rule if it has one. A default cannot expire.
///
/// # Errors
///
/// [`Error::TooManyRules`], [`Error::TooManyPolicies`] or [`Error::TooManyServices`] where there is no room; nothing has changed then.
pub fn set(
    tables: &mut Tables,
    target: Target,
    terms: &Terms,
    life: Option<Duration>,
    origin: u8,
) -> Result<(), Error> {
    expiry::clear(tables)?;
    let id = policies::intern(tables, terms)?;
    policies::note_debt(tables, &policies::read(tables, id)?)?;
    if terms.policy.ban.time != 0 {
        expiry::expect(tables)?;
    }
    let class = services::ensure_class(tables, target.service)?;
    let Sources::Prefix(prefix) = target.sources else {
        tables.set_default_policy(class, id, origin)?;
        tables.renew()?;
        return policies::renew_debt(tables);
    };
    let outcome = set_prefix(tables, &prefix, class, id, life, origin);
    if outcome.is_err() && class != ANY {
        // The service has a class for nothing, perhaps.
        services::forget_unused(tables)?;
    }
    outcome
}

fn set_prefix(
    tables: &mut Tables,
    prefix: &Prefix,
    class: Class,
    policy: PolicyId,
    life: Option<Duration>,
    origin: u8,
) -> Result<(), Error> {
    let mut control = tables.control()?;
    let expires =
        life.map_or(NEVER, |life| host::now().saturating_add(u64::try_from(life.as_nanos()).unwrap_or(NEVER)));
    let rule = Rule { policy, prefix: prefix.bits(), origin, reserved: 0, expires };
    if expires != NEVER && control.clear_after == 0 {
        control.clear_after = expires;
        tables.set_control(&control)?;
    }
    if is_narrow(&prefix.source(), control.ipv6_prefix) && control.narrow_rules == 0 {
        control.narrow_rules = 1;
        tables.set_control(&control)?;
    }
    filter::add(tables, &prefix.source())?;
    lift(tables, prefix, class)?;
    let place = Place::of(prefix, class, control.ipv6_prefix);
    match place.insert(tables, &rule) {
        // What has ended makes room, even if a search is not due yet.
        Err(Error::TooManyRules { .. }) => {
            expiry::remove(tables)?;
            filter::add(tables, &prefix.source())?;
            place.insert(tables, &rule)?;
        }
        outcome => outcome?,
    }
    tables.renew()
}

/// The ban of exactly the source that `target` is, if it has one that has not ended.
///
/// # Errors
///
/// [`Error::Bpf`] where the kernel refuses.
pub fn ban(tables: &Tables, target: Target) -> Result<Option<Listed>, Error> {
    let Some(class) = Services::read(tables)?.class(target.service) else { return Ok(None) };
    let Sources::Prefix(prefix) = target.sources else { return Ok(None) };
    match tables.bans.get(&prefix.source().of_class(class), 0) {
        Ok(ban) => listed(tables, target, &ban),
        Err(MapError::KeyNotFound) => Ok(None),
        Err(error) => Err(error).tried("cannot read a ban"),
    }
}

/// Lifts the ban of exactly the source that `target` is; its rule stays.
///
/// # Errors
///
/// [`Error::Bpf`] where the kernel refuses.
pub fn lift_ban(tables: &mut Tables, target: Target) -> Result<(), Error> {
    if let (Sources::Prefix(prefix), Some(class)) = (target.sources, Services::read(tables)?.class(target.service)) {
        lift(tables, &prefix, class)?;
    }
    tables.renew()
}

/// Lifts the ban of exactly these sources: what the operator says about them counts.
fn lift(tables: &mut Tables, prefix: &Prefix, class: Class) -> Result<(), Error> {
    lift_source(tables, &prefix.source().of_class(class))
}

/// Lifts the ban of a source of one class, if it has one.
pub(crate) fn lift_source(tables: &mut Tables, source: &Source) -> Result<(), Error> {
    tables.bans.remove(source).or_else(missing).tried("cannot delete a ban")
}

/// The rule of exactly `target`, if it has one that has not ended. A default has one when it limits something.
///
/// # Errors
///
/// [`Error::Bpf`] where the kernel refuses.
pub fn get(tables: &Tables, target: Target) -> Result<Option<Listed>, Error> {
    let Some(class) = Services::read(tables)?.class(target.service) else { return Ok(None) };
    let Sources::Prefix(prefix) = target.sources else {
        return default(tables, target, class);
    };
    let found = match Place::of(&prefix, class, tables.control()?.ipv6_prefix) {
        Place::Source(source) => tables.source_rules.get(&source, 0),
        // Looking a prefix up finds the longest around it, which may be a shorter one.
        Place::Prefix(key) => tables.prefix_rules.get(&key, 0),
    };
    match found {
        Ok(rule) if rule.prefix == prefix.bits() => listed(tables, target, &rule),
        Ok(_) | Err(MapError::KeyNotFound) => Ok(None),
        Err(error) => Err(error).tried("cannot read a rule"),
    }
}

/// Deletes the rule of exactly `target`; the default becomes no limit.
///
/// # Errors
///
/// [`Error::Bpf`] where the kernel refuses.
pub fn delete(tables: &mut Tables, target: Target) -> Result<(), Error> {
    expiry::clear(tables)?;
    let Some(class) = Services::read(tables)?.class(target.service) else { return Ok(()) };
    match target.sources {
        Sources::Default => tables.set_default_policy(class, UNLIMITED_ID, 0)?,
        Sources::Prefix(prefix) => {
            Place::of(&prefix, class, tables.control()?.ipv6_prefix).remove(tables)?;
            // A ban is no rule of the operator's.
            lift(tables, &prefix, class)?;
            forget_narrow(tables)?;
            filter::forget(tables)?;
        }
    }
    tables.renew()?;
    if target.sources == Sources::Default {
        policies::renew_debt(tables)?;
    }
    if class == ANY { Ok(()) } else { services::forget_unused(tables) }
}

/// Every rule that has not ended, the defaults first, then by address and service.
///
/// # Errors
///
/// [`Error::Bpf`] where the kernel refuses.
pub fn list(tables: &Tables) -> Result<Vec<Listed>, Error> {
    let services = Services::read(tables)?;
    let mut rules = Vec::new();
    // Many rules share few policies.
    let mut known = HashMap::<PolicyId, Arc<Terms>>::new();
    for (service, class) in [(Service::Any, ANY)].into_iter().chain(services.iter()) {
        rules.extend(default(tables, Target::DEFAULT.of(service), class)?);
    }
    let mut add = |source: &Source, rule: &Rule| -> Result<(), Error> {
        // A class without a service belongs to a rule that is just being made or deleted.
        if let Some(service) = services.of_class(source.class as Class) {
            let terms = match known.entry(rule.policy) {
                Entry::Occupied(known) => Arc::clone(known.get()),
                Entry::Vacant(free) => Arc::clone(free.insert(Arc::new(policies::terms(tables, rule.policy)?))),
            };
            rules.extend(with_terms(Target::prefix(Prefix::of(source, source.prefix)).of(service), rule, terms));
        }
        Ok(())
    };
    for (source, rule) in tables.bans()?.into_iter().chain(tables.source_rules()?).chain(tables.prefix_rules()?) {
        add(&source, &rule)?;
    }
    rules.sort_by_key(|rule| rule.target);
    Ok(rules)
}

fn default(tables: &Tables, target: Target, class: Class) -> Result<Option<Listed>, Error> {
    let entry = tables.class(class)?;
    if entry.default_policy == UNLIMITED_ID {
        return Ok(None);
    }
    let terms = Arc::new(policies::terms(tables, entry.default_policy)?);
    Ok(Some(Listed { target, terms, expires_in: None, origin: entry.default_origin }))
}

fn listed(tables: &Tables, target: Target, rule: &Rule) -> Result<Option<Listed>, Error> {
    Ok(with_terms(target, rule, Arc::new(policies::terms(tables, rule.policy)?)))
}

/// The rule with its terms, unless it has ended.
fn with_terms(target: Target, rule: &Rule, terms: Arc<Terms>) -> Option<Listed> {
    let expires_in = match rule.expires {
        NEVER => None,
        expires => Some(Duration::from_nanos(expires.checked_sub(host::now())?)),
    };
    Some(Listed { target, terms, expires_in, origin: rule.origin })
}

/// Notes that no part of an IPv6 source has a rule of its own any more, if that is so.
pub(crate) fn forget_narrow(tables: &mut Tables) -> Result<(), Error> {
    let mut control = tables.control()?;
    if control.narrow_rules != 0 && !any_narrow(tables, control.ipv6_prefix)? {
        control.narrow_rules = 0;
        tables.set_control(&control)?;
    }
    Ok(())
}

fn any_narrow(tables: &Tables, ipv6_prefix: u32) -> Result<bool, Error> {
    Ok(tables.prefix_rules()?.iter().any(|(source, _)| is_narrow(source, ipv6_prefix)))
}
