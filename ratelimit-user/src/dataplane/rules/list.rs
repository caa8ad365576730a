//! Lists rules. Changes belong in `batch`.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
    time::Duration,
};

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
    rules::{
        policies,
        rule_key::Place,
        services::Services,
        spec::RuleSpec,
        target::{Sources, Target},
    },
    sys::host,
    tables::{open::Tables, rule_maps},
};
use crate::text::prefix::Prefix;

/// A rule in the operator's words.
#[derive(Debug, Clone)]
pub struct Listed {
    /// The packets that it matches.
    pub target: Target,
    /// What happens to them. Many rules share it.
    pub spec: Arc<RuleSpec>,
    /// Time until it expires.
    pub expires_in: Option<Duration>,
    /// Its origin: one of [`ratelimit_common::rules::rule`].
    pub origin: u8,
}

/// Returns the unexpired ban of exactly the source that `target` is.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn ban(tables: &Tables, target: Target) -> Result<Option<Listed>, Error> {
    let Some(class) = Services::read(tables)?.class(target.service) else { return Ok(None) };
    let Sources::Prefix(prefix) = target.sources else { return Ok(None) };
    match tables.ban(&prefix.source().of_class(class))? {
        Some(ban) => listed(tables, target, &ban),
        None => Ok(None),
    }
}

/// Returns the unexpired rule of exactly `target`. A default counts as a rule if it has a limit.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn get(tables: &Tables, target: Target) -> Result<Option<Listed>, Error> {
    let Some(class) = Services::read(tables)?.class(target.service) else { return Ok(None) };
    let Sources::Prefix(prefix) = target.sources else {
        return default(tables, target, class);
    };
    match Place::of(&prefix, class, tables.control()?.ipv6_prefix).get(tables)? {
        Some(rule) => listed(tables, target, &rule),
        None => Ok(None),
    }
}

/// Returns every unexpired rule: the defaults first, then by address and service.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn list(tables: &Tables) -> Result<Vec<Listed>, Error> {
    let services = Services::read(tables)?;
    let mut rules = Vec::new();
    // Many rules share few policies.
    let mut known = HashMap::<PolicyId, Arc<RuleSpec>>::new();
    for (service, class) in [(Service::Any, ANY)].into_iter().chain(services.iter()) {
        rules.extend(default(tables, Target::DEFAULT.of(service), class)?);
    }
    let mut add = |source: &Source, rule: &Rule| -> Result<(), Error> {
        // A class without a service belongs to a rule that another command is writing or deleting.
        if let Some(service) = services.of_class(source.class as Class) {
            let spec = match known.entry(rule.policy) {
                Entry::Occupied(known) => Arc::clone(known.get()),
                Entry::Vacant(free) => Arc::clone(free.insert(Arc::new(policies::spec(tables, rule.policy)?))),
            };
            rules.extend(with_terms(Target::prefix(Prefix::of(source, source.prefix)).of(service), rule, spec));
        }
        Ok(())
    };
    for (source, rule) in
        tables.bans()?.all().into_iter().chain(rule_maps::sources(tables)?).chain(rule_maps::prefixes(tables)?)
    {
        add(&source, &rule)?;
    }
    rules.sort_by_key(|rule| rule.target);
    Ok(rules)
}

fn default(tables: &Tables, target: Target, class: Class) -> Result<Option<Listed>, Error> {
    let entry = tables.classes.get(u32::from(class))?;
    if entry.default_policy == UNLIMITED_ID {
        return Ok(None);
    }
    let spec = Arc::new(policies::spec(tables, entry.default_policy)?);
    Ok(Some(Listed { target, spec, expires_in: None, origin: entry.default_origin }))
}

fn listed(tables: &Tables, target: Target, rule: &Rule) -> Result<Option<Listed>, Error> {
    Ok(with_terms(target, rule, Arc::new(policies::spec(tables, rule.policy)?)))
}

/// Returns the rule with its spec, unless it has expired.
fn with_terms(target: Target, rule: &Rule, spec: Arc<RuleSpec>) -> Option<Listed> {
    let expires_in = match rule.expires {
        NEVER => None,
        expires => Some(Duration::from_nanos(expires.checked_sub(host::now())?)),
    };
    Some(Listed { target, spec, expires_in, origin: rule.origin })
}
