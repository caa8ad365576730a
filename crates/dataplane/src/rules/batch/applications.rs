//! Rules that applications have asked for. They give way to every rule of an operator: where both are about the same
//! packets, and where there is no room for both.

use std::{collections::HashSet, path::Path};

use ratelimit_base::text::prefix::Prefix;
use ratelimit_common::{
    identity::{
        class::Class,
        service::{Service, Transport},
        source::Source,
    },
    maps::control::FEATURE_SERVICES,
    rules::rule::{APPLICATION, Rule},
};

use crate::{
    Error,
    error::ServicesError,
    pins::layout::{self, APPLICATIONS},
    rules::{
        batch::{Change, change::end},
        list::{self, Listed},
        rule_key::Place,
        services::Services,
        spec::RuleSpec,
        target::{Sources, Target},
    },
    sys::host,
    tables::{open::Tables, rule_maps},
};

/// Returns the targets of all rules for applications, also of those that have ended.
pub fn all(tables: &Tables) -> Result<Vec<Target>, Error> {
    those(tables, |_| true)
}

/// Returns the targets of rules for applications that have ended.
pub fn ended(tables: &Tables) -> Result<Vec<Target>, Error> {
    let now = host::now();
    those(tables, |rule| rule.expires <= now)
}

/// Returns the targets of rules for applications that are in force.
pub fn standing(tables: &Tables) -> Result<Vec<Target>, Error> {
    let now = host::now();
    those(tables, |rule| rule.expires > now)
}

/// Returns which of these targets have rules for applications in force.
pub fn standing_of(tables: &Tables, targets: impl Iterator<Item = Target>) -> Result<HashSet<Target>, Error> {
    let (services, ipv6_prefix, now) = (Services::read(tables)?, tables.control()?.ipv6_prefix, host::now());
    let mut standing = HashSet::new();
    for target in targets {
        let (Sources::Prefix(prefix), Some(class)) = (target.sources, services.class(target.service)) else { continue };
        let rule = Place::of(&prefix, class, ipv6_prefix).get(tables)?;
        if rule.is_some_and(|rule| rule.origin == APPLICATION && rule.expires > now) {
            standing.insert(target);
        }
    }
    Ok(standing)
}

/// Returns a change that sets the rules for applications in force again, with the same ends.
pub(super) fn again(tables: &Tables) -> Result<Change, Error> {
    let now = host::now();
    let mut change = Change { keeps_bans: true, ..Change::default() };
    for Listed { target, spec, expires_in, .. } in
        list::of_entries(tables, entries(tables, |rule| rule.expires > now)?)?
    {
        change.add(target, change.specs.len(), end(expires_in), APPLICATION, None);
        change.specs.push(RuleSpec::clone(&spec));
    }
    Ok(change)
}

/// Returns the services that these rules can be for, with their classes: those of one TCP port.
pub(super) fn ports(tables: &Tables) -> Result<Vec<(Service, Class)>, Error> {
    if tables.control()?.features & FEATURE_SERVICES == 0 {
        return Ok(Vec::new());
    }
    let is_port = |service: Service| matches!(service, Service::Ports(Transport::Tcp, first, last) if first == last);
    Ok(Services::read(tables)?.iter().filter(|(service, _)| is_port(*service)).collect())
}

/// Marks an instance that is to have these rules.
pub(super) fn mark(pins: &Path) -> Result<(), Error> {
    layout::create_folder(&pins.join(APPLICATIONS))
}

/// Returns whether an instance can have these rules. So nothing is searched in most instances.
pub(super) fn is_marked(pins: &Path) -> bool {
    pins.join(APPLICATIONS).exists()
}

/// Removes the mark if there is no such rule. The caller has the lock of the instance. Otherwise it stays, which is harmless.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn unmark(pins: &Path, tables: &Tables) -> Result<(), Error> {
    if is_marked(pins) && all(tables)?.is_empty() {
        let _ = layout::remove_folder(&pins.join(APPLICATIONS));
    }
    Ok(())
}

fn entries(tables: &Tables, wanted: impl Fn(&Rule) -> bool) -> Result<Vec<(Source, Rule)>, Error> {
    if ports(tables)?.is_empty() {
        return Ok(Vec::new());
    }
    let rules = rule_maps::sources(tables)?.into_iter().chain(rule_maps::prefixes(tables)?);
    Ok(rules.filter(|(_, rule)| rule.origin == APPLICATION && wanted(rule)).collect())
}

fn those(tables: &Tables, wanted: impl Fn(&Rule) -> bool) -> Result<Vec<Target>, Error> {
    let these = entries(tables, wanted)?;
    if these.is_empty() {
        return Ok(Vec::new());
    }
    let services = Services::read(tables)?;
    let target = |(source, _): (Source, Rule)| {
        let service = services.of_class(source.class as Class)?;
        Some(Target::prefix(Prefix::of(&source, source.prefix)).of(service))
    };
    Ok(these.into_iter().filter_map(target).collect())
}

/// Returns whether a change is on behalf of applications.
pub(super) fn is_for(change: &Change) -> bool {
    change.rules.first().is_some_and(|rule| rule.origin == APPLICATION)
}

/// Returns whether an error says that rules have no room, which the rules for applications may take.
pub(super) fn may_take_the_room(error: &Error) -> bool {
    matches!(
        error,
        Error::TooManyRules { .. }
            | Error::TooManyPolicies(_)
            | Error::Services(ServicesError::TooMany(_) | ServicesError::Overlap { .. })
    )
}
