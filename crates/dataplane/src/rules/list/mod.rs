//! Lists rules. Changes belong in `batch`.

pub mod around;
pub mod within;

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
    time::Duration,
};

use ratelimit_base::text::prefix::Prefix;
use ratelimit_common::{
    identity::{
        class::{ANY, Class},
        service::Service,
        source::{IPV6, Source},
    },
    limits::policy::{ALLOWED_ID, DENIED_ID, PolicyId, UNLIMITED_ID},
    rules::{
        comment::{self, Owner},
        rule::{COMMAND, NEVER, Rule},
    },
};

use crate::{
    Error,
    rules::{
        comments::{self, Comments},
        owners::Owners,
        policies,
        rule_key::Place,
        services::Services,
        spec::RuleSpec,
        target::{Sources, Target},
    },
    sys::host,
    tables::{open::Tables, rule_maps},
};

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
    /// The rule that returns when this one expires.
    pub covers: Option<Covered>,
    /// Its comment.
    pub comment: Option<Box<str>>,
    /// Others who deny the same, and end before. The rule stays until the last one ends.
    pub owners: Vec<ListedOwner>,
}

/// A further owner of a rule *deny*.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedOwner {
    /// Its comment. None for an operator without one.
    pub comment: Option<Box<str>>,
    /// Time until it ends.
    pub expires_in: Option<Duration>,
}

/// A rule that stays below one that expires.
#[derive(Debug, Clone)]
pub struct Covered {
    /// What happens to the packets.
    pub spec: Arc<RuleSpec>,
    /// Its origin.
    pub origin: u8,
    /// Its comment.
    pub comment: Option<Box<str>>,
    /// Its further owners, if the rule above it does not deny.
    pub owners: Vec<ListedOwner>,
}

impl Listed {
    /// Returns a rule that a command has just set.
    #[must_use]
    pub fn set(target: Target, spec: RuleSpec, expires_in: Option<Duration>) -> Self {
        Self {
            target,
            spec: Arc::new(spec),
            expires_in,
            origin: COMMAND,
            covers: None,
            comment: None,
            owners: Vec::new(),
        }
    }

    /// Returns the rule that it covers as a rule of its own.
    #[must_use]
    pub fn covered(&self) -> Option<Self> {
        let Covered { spec, origin, comment, owners } = self.covers.clone()?;
        Some(Self { target: self.target, spec, expires_in: None, origin, covers: None, comment, owners })
    }

    /// Returns the rule that stays: this one, or the one that it covers.
    #[must_use]
    pub fn lasting(&self) -> Option<Covered> {
        match self.expires_in {
            None => Some(Covered {
                spec: Arc::clone(&self.spec),
                origin: self.origin,
                comment: self.comment.clone(),
                owners: self.owners.clone(),
            }),
            Some(_) => self.covers.clone(),
        }
    }
}

/// Returns the unexpired ban of exactly the source that `target` is.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn ban(tables: &Tables, target: Target) -> Result<Option<Listed>, Error> {
    let Some(class) = Services::read(tables)?.class(target.service) else { return Ok(None) };
    let Sources::Prefix(prefix) = target.sources else { return Ok(None) };
    ban_of(tables, &prefix.source(), class, target)
}

/// Returns the unexpired ban of a source in one class, whose packets are those of `target`.
pub fn ban_of(tables: &Tables, source: &Source, class: Class, target: Target) -> Result<Option<Listed>, Error> {
    match tables.ban(&source.of_class(class))? {
        Some(ban) => listed(&mut Specs::of_all(tables, Comments::default()), target, source, ban),
        None => Ok(None),
    }
}

/// Returns the unexpired rule of exactly `target`. A default counts as a rule if it has a limit.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn get(tables: &Tables, target: Target) -> Result<Option<Listed>, Error> {
    find(tables, target, |keys, rule| match rule {
        Some(rule) if comments::has_deny(&rule.1) => Comments::of_owners(tables, &[rule]),
        _ => Comments::of(tables, keys),
    })
}

/// Returns the same rule without its comment, which takes more system calls.
pub fn without_comment(tables: &Tables, target: Target) -> Result<Option<Listed>, Error> {
    find(tables, target, |_, _| Ok(Comments::default()))
}

fn find(
    tables: &Tables,
    target: Target,
    comments: impl FnOnce(&[Source], Option<(Source, Rule)>) -> Result<Comments, Error>,
) -> Result<Option<Listed>, Error> {
    let Some(class) = Services::read(tables)?.class(target.service) else { return Ok(None) };
    let Sources::Prefix(prefix) = target.sources else {
        let entry = tables.classes.get(u32::from(class))?;
        if entry.default_policy == UNLIMITED_ID {
            return Ok(None);
        }
        let comments = comments(&[comment::of_default(class, entry.default_policy, entry.default_origin)], None)?;
        return default(&mut Specs::of_all(tables, comments), target, class);
    };
    let Some(rule) = Place::of(&prefix, class, tables.control()?.ipv6_prefix).get(tables)? else { return Ok(None) };
    let source = prefix.source().of_class(class);
    let comments = comments(&comments::keys(&source, &rule).collect::<Vec<_>>(), Some((source, rule)))?;
    listed(&mut Specs::of_all(tables, comments), target, &source, rule)
}

/// Returns every unexpired rule: the defaults first, then by address and service.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn list(tables: &Tables) -> Result<Vec<Listed>, Error> {
    let services = Services::read(tables)?;
    let mut rules = Vec::new();
    let mut specs = Specs::of_all(tables, Comments::read(tables)?);
    for (service, class) in [(Service::Any, ANY)].into_iter().chain(services.iter()) {
        rules.extend(default(&mut specs, Target::DEFAULT.of(service), class)?);
    }
    let entries =
        tables.bans()?.all().into_iter().chain(rule_maps::sources(tables)?).chain(rule_maps::prefixes(tables)?);
    rules.extend(in_words(&mut specs, &services, entries)?);
    rules.sort_by_key(|rule| rule.target);
    Ok(rules)
}

/// Returns the unexpired rules *deny* with an end for IPv6 prefixes, in no order.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn bans_of_ipv6(tables: &Tables) -> Result<Vec<Listed>, Error> {
    let now = host::now();
    let mut entries = rule_maps::prefixes(tables)?;
    if tables.control()?.ipv6_prefix == 128 {
        entries.extend(rule_maps::sources(tables)?);
    }
    entries.retain(|(source, rule)| {
        source.family == IPV6 && rule.policy == DENIED_ID && rule.expires != NEVER && rule.expires > now
    });
    let mut specs = Specs::of_all(tables, Comments::of_owners(tables, &entries)?);
    in_words(&mut specs, &Services::read(tables)?, entries.into_iter())
}

/// Returns the IPv6 prefixes with an unexpired rule *allow*, whatever its service.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn allowed_of_ipv6(tables: &Tables) -> Result<Vec<Prefix>, Error> {
    let found = of_ipv6(tables, |rule| rule.policies().any(|policy| policy == ALLOWED_ID))?;
    Ok(found.into_iter().map(|source| Prefix::of(&source, source.prefix)).collect())
}

/// Returns the services and IPv6 prefixes with an unexpired rule that is more than a ban: one with another meaning or
/// without an end, or a ban that covers such a rule.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn others_of_ipv6(tables: &Tables) -> Result<Vec<(Service, Prefix)>, Error> {
    let is_other = |rule: Rule| rule.policy != DENIED_ID || rule.expires == NEVER || rule.below().is_some();
    let (found, services) = (of_ipv6(tables, is_other)?, Services::read(tables)?);
    let of = |source: Source| Some((services.of_class(source.class as Class)?, Prefix::of(&source, source.prefix)));
    Ok(found.into_iter().filter_map(of).collect())
}

/// Returns the sources of IPv6 with such an unexpired rule, and its class.
fn of_ipv6(tables: &Tables, is_meant: impl Fn(Rule) -> bool) -> Result<Vec<Source>, Error> {
    let now = host::now();
    let mut entries = rule_maps::prefixes(tables)?;
    if tables.control()?.ipv6_prefix == 128 {
        entries.extend(rule_maps::sources(tables)?);
    }
    let is_meant = |rule: Rule| rule.at(now).is_some_and(&is_meant);
    let found = entries.into_iter().filter(|(source, rule)| source.family == IPV6 && is_meant(*rule));
    Ok(found.map(|(source, _)| source).collect())
}

/// Returns the number of rules of this origin that have no end. Some of them are below a rule that has one.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn count_lasting(tables: &Tables, origin: u8) -> Result<usize, Error> {
    let now = host::now();
    let is_such = |rule: &Rule| rule.expires == NEVER && rule.origin == origin;
    let is_counted = |rule: Rule| {
        rule.at(now).is_some_and(|rule| is_such(&rule) || rule.below().is_some_and(|below| is_such(&below)))
    };
    let of_sources = rule_maps::sources(tables)?.into_iter().chain(rule_maps::prefixes(tables)?);
    let defaults = tables.classes.all()?.into_iter();
    let of_defaults = defaults.filter(|entry| entry.default_policy != UNLIMITED_ID && entry.default_origin == origin);
    Ok(of_sources.filter(|(_, rule)| is_counted(*rule)).count() + of_defaults.count())
}

/// Returns the unexpired ones of these rules, in order, without their comments.
pub fn of_entries(tables: &Tables, entries: Vec<(Source, Rule)>) -> Result<Vec<Listed>, Error> {
    let mut specs = Specs::of_all(tables, Comments::default());
    let mut rules = in_words(&mut specs, &Services::read(tables)?, entries.into_iter())?;
    rules.sort_by_key(|rule| rule.target);
    Ok(rules)
}

fn in_words(
    specs: &mut Specs<'_>,
    services: &Services,
    entries: impl Iterator<Item = (Source, Rule)>,
) -> Result<Vec<Listed>, Error> {
    let mut rules = Vec::new();
    for (source, rule) in entries {
        // A class without a service belongs to a rule that another command is writing or deleting.
        if let Some(service) = services.of_class(source.class as Class) {
            let target = Target::prefix(Prefix::of(&source, source.prefix)).of(service);
            rules.extend(listed(specs, target, &source, rule)?);
        }
    }
    Ok(rules)
}

/// The specs of policies, which many rules share, and the comments of rules.
struct Specs<'a> {
    tables: &'a Tables,
    known: HashMap<PolicyId, Arc<RuleSpec>>,
    comments: Comments,
}

impl<'a> Specs<'a> {
    fn of_all(tables: &'a Tables, comments: Comments) -> Self {
        Self { tables, known: HashMap::new(), comments }
    }

    fn of(&mut self, policy: PolicyId) -> Result<Arc<RuleSpec>, Error> {
        Ok(match self.known.entry(policy) {
            Entry::Occupied(known) => Arc::clone(known.get()),
            Entry::Vacant(free) => Arc::clone(free.insert(Arc::new(policies::spec(self.tables, policy)?))),
        })
    }
}

/// Returns the rule of a class's default, if it has a limit.
pub fn default_of(tables: &Tables, class: Class) -> Result<Option<Listed>, Error> {
    let service = Services::read(tables)?.of_class(class).unwrap_or_default();
    default(&mut Specs::of_all(tables, Comments::default()), Target::DEFAULT.of(service), class)
}

fn default(specs: &mut Specs<'_>, target: Target, class: Class) -> Result<Option<Listed>, Error> {
    let entry = specs.tables.classes.get(u32::from(class))?;
    if entry.default_policy == UNLIMITED_ID {
        return Ok(None);
    }
    let (spec, origin) = (specs.of(entry.default_policy)?, entry.default_origin);
    let comment = specs.comments.text(&comment::of_default(class, entry.default_policy, origin));
    Ok(Some(Listed { target, spec, expires_in: None, origin, covers: None, comment, owners: Vec::new() }))
}

/// Returns the rule that is in force, if there is one.
fn listed(specs: &mut Specs<'_>, target: Target, source: &Source, rule: Rule) -> Result<Option<Listed>, Error> {
    let now = host::now();
    let Some(rule) = rule.at(now) else { return Ok(None) };
    let expires_in = (rule.expires != NEVER).then(|| Duration::from_nanos(rule.expires - now));
    let left = |expires: u64| (expires != NEVER).then(|| Duration::from_nanos(expires.saturating_sub(now)));
    let owner =
        |owner: &Owner| ListedOwner { comment: owner.comment().get().map(Into::into), expires_in: left(owner.expires) };
    let known = Owners::of(&specs.comments, source, &rule, now);
    let further: Vec<ListedOwner> = known.further().iter().map(owner).collect();
    let (owners, owners_below) = if known.is_covered() { (Vec::new(), further) } else { (further, Vec::new()) };
    let covers = match rule.below().filter(|_| expires_in.is_some()) {
        Some(below) => Some(Covered {
            spec: specs.of(below.policy)?,
            origin: below.origin,
            comment: specs.comments.text(&comment::key(source, &below)),
            owners: owners_below,
        }),
        None => None,
    };
    let comment = specs.comments.text(&comment::key(source, &rule));
    Ok(Some(Listed { target, spec: specs.of(rule.policy)?, expires_in, origin: rule.origin, covers, comment, owners }))
}
