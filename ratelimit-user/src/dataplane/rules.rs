//! Sets, deletes and lists rules. A change acts on the next packet of every source, tracked or not.

use std::{fmt, str::FromStr, time::Duration};

use aya::maps::{MapError, lpm_trie::Key};
use ratelimit_common::{
    map,
    policy::{Policy, UNLIMITED_ID},
    rule::{COMMAND, NEVER, Rule},
    source::{KEY_BITS, Source},
};

use super::{Error, error::Tried as _, host, policies, tables::Tables};
use crate::prefix::{Prefix, PrefixError};

/// Nanoseconds between two searches for expired rules.
const CLEAR_INTERVAL: u64 = 60 * ratelimit_common::limit::SECOND;

/// What a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// Every source that no other rule concerns.
    Default,
    /// Every source in a prefix.
    Prefix(Prefix),
}

/// Text that is no target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// Neither the word nor a prefix.
    #[error("{0}, or the word default")]
    Neither(PrefixError),
    /// A prefix that cannot be.
    #[error(transparent)]
    Prefix(PrefixError),
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        match text.parse() {
            Ok(prefix) => Ok(Self::Prefix(prefix)),
            Err(_) if text == "default" => Ok(Self::Default),
            Err(error @ PrefixError::Address) => Err(TargetError::Neither(error)),
            Err(error) => Err(TargetError::Prefix(error)),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Default => f.write_str("default"),
            Target::Prefix(prefix) => prefix.fmt(f),
        }
    }
}

/// A rule with all that it says.
#[derive(Debug, Clone, Copy)]
pub struct Listed {
    /// What it is about.
    pub target: Target,
    /// What is done.
    pub policy: Policy,
    /// Time until it ends by itself.
    pub expires_in: Option<Duration>,
    /// Who made it: an origin of [`ratelimit_common::rule`].
    pub origin: u8,
}

/// Where a rule for a prefix is kept.
enum Place {
    /// One source, found by its key.
    Source(Source),
    /// Several sources, or a part of one.
    Prefix(Key<Source>),
}

impl Place {
    fn of(prefix: &Prefix, ipv6_prefix: u32) -> Self {
        let source = prefix.source();
        if prefix.bits() == source.bits(ipv6_prefix as u8) {
            return Self::Source(source);
        }
        let (bits, data) = source.prefix_key(prefix.bits());
        Self::Prefix(Key::new(bits, data))
    }

    fn insert(&self, tables: &mut Tables, rule: &Rule) -> Result<(), Error> {
        match self {
            Self::Source(source) => {
                let outcome = tables.source_rules.insert(source, rule, 0);
                outcome.map_err(|error| full(error, "source", map::SOURCE_RULES_MAX))
            }
            Self::Prefix(key) => {
                let outcome = tables.prefix_rules.insert(key, rule, 0);
                outcome.map_err(|error| full(error, "prefix", map::PREFIX_RULES_MAX))
            }
        }
    }
}

/// Gives `target` a policy, replacing its rule if it has one. The default cannot expire.
///
/// # Errors
///
/// [`Error::TooManyRules`] or [`Error::TooManyPolicies`] where there is no room; nothing has changed then.
pub fn set(
    tables: &mut Tables,
    target: Target,
    policy: &Policy,
    life: Option<Duration>,
    origin: u8,
) -> Result<(), Error> {
    clear_expired(tables)?;
    let id = policies::intern(tables, policy)?;
    let mut control = tables.control()?;
    let Target::Prefix(prefix) = target else {
        control.default_policy = id;
        tables.set_control(&control)?;
        return tables.renew();
    };
    let expires =
        life.map_or(NEVER, |life| host::now().saturating_add(u64::try_from(life.as_nanos()).unwrap_or(NEVER)));
    let rule = Rule { policy: id, prefix: prefix.bits(), origin, reserved: 0, expires };
    if expires != NEVER && control.clear_after == 0 {
        control.clear_after = expires;
        tables.set_control(&control)?;
    }
    if is_narrow(prefix.bits(), &prefix.source(), control.ipv6_prefix) && control.narrow_rules == 0 {
        control.narrow_rules = 1;
        tables.set_control(&control)?;
    }
    let place = Place::of(&prefix, control.ipv6_prefix);
    match place.insert(tables, &rule) {
        // What has ended makes room, even if a search is not due yet.
        Err(Error::TooManyRules { .. }) => {
            remove_expired(tables)?;
            place.insert(tables, &rule)?;
        }
        outcome => outcome?,
    }
    tables.renew()
}

/// The rule of exactly `target`, if it has one that has not ended. The default has one when it limits something.
///
/// # Errors
///
/// [`Error::Bpf`] where the kernel refuses.
pub fn get(tables: &Tables, target: Target) -> Result<Option<Listed>, Error> {
    let control = tables.control()?;
    let Target::Prefix(prefix) = target else {
        if control.default_policy == UNLIMITED_ID {
            return Ok(None);
        }
        let policy = policies::read(tables, control.default_policy)?;
        return Ok(Some(Listed { target, policy, expires_in: None, origin: COMMAND }));
    };
    let found = match Place::of(&prefix, control.ipv6_prefix) {
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
    clear_expired(tables)?;
    let mut control = tables.control()?;
    let Target::Prefix(prefix) = target else {
        control.default_policy = UNLIMITED_ID;
        tables.set_control(&control)?;
        return tables.renew();
    };
    let outcome = match Place::of(&prefix, control.ipv6_prefix) {
        Place::Source(source) => tables.source_rules.remove(&source),
        Place::Prefix(key) => tables.prefix_rules.remove(&key),
    };
    match outcome {
        Ok(()) | Err(MapError::KeyNotFound) => {}
        Err(error) => return Err(error).tried("cannot delete a rule"),
    }
    forget_narrow(tables)?;
    tables.renew()
}

/// Every rule that has not ended, the default first, then by address.
///
/// # Errors
///
/// [`Error::Bpf`] where the kernel refuses.
pub fn list(tables: &Tables) -> Result<Vec<Listed>, Error> {
    let mut rules: Vec<Listed> = get(tables, Target::Default)?.into_iter().collect();
    for entry in tables.source_rules.iter() {
        let (source, rule) = entry.tried("cannot read the rules")?;
        rules.extend(listed(tables, Target::Prefix(Prefix::of(&source, source.prefix)), &rule)?);
    }
    for entry in tables.prefix_rules.iter() {
        let (key, rule) = entry.tried("cannot read the rules")?;
        let bits = key.prefix_len() - KEY_BITS;
        rules.extend(listed(tables, Target::Prefix(Prefix::of(&key.data(), bits as u8)), &rule)?);
    }
    rules.sort_by_key(|rule| rule.target);
    Ok(rules)
}

fn listed(tables: &Tables, target: Target, rule: &Rule) -> Result<Option<Listed>, Error> {
    let expires_in = match rule.expires {
        NEVER => None,
        expires => match expires.checked_sub(host::now()) {
            Some(left) => Some(Duration::from_nanos(left)),
            None => return Ok(None),
        },
    };
    let policy = policies::read(tables, rule.policy)?;
    Ok(Some(Listed { target, policy, expires_in, origin: rule.origin }))
}

/// Whether a rule is for a part of what makes one IPv6 source.
fn is_narrow(bits: u8, source: &Source, ipv6_prefix: u32) -> bool {
    bits > source.bits(ipv6_prefix as u8)
}

/// Notes that no part of an IPv6 source has a rule of its own any more, if that is so.
fn forget_narrow(tables: &mut Tables) -> Result<(), Error> {
    let mut control = tables.control()?;
    if control.narrow_rules != 0 && !any_narrow(tables, control.ipv6_prefix)? {
        control.narrow_rules = 0;
        tables.set_control(&control)?;
    }
    Ok(())
}

/// Removes rules that have ended, at most once a minute, since all rules are read for it.
fn clear_expired(tables: &mut Tables) -> Result<(), Error> {
    let due = tables.control()?.clear_after;
    if due == 0 || host::now() < due { Ok(()) } else { remove_expired(tables) }
}

/// Removes rules that have ended. The program looks past them, but they take room, and it looks past few.
fn remove_expired(tables: &mut Tables) -> Result<(), Error> {
    let (mut control, now) = (tables.control()?, host::now());
    let mut next = NEVER;
    let mut ended = |rule: &Rule| {
        next = if rule.expires > now { next.min(rule.expires) } else { next };
        rule.expires <= now
    };
    let rules = tables.source_rules.iter().collect::<Result<Vec<_>, _>>().tried("cannot read the rules")?;
    for (source, _) in rules.into_iter().filter(|(_, rule)| ended(rule)) {
        tables.source_rules.remove(&source).tried("cannot delete a rule")?;
    }
    let rules = tables.prefix_rules.iter().collect::<Result<Vec<_>, _>>().tried("cannot read the rules")?;
    for (key, _) in rules.into_iter().filter(|(_, rule)| ended(rule)) {
        tables.prefix_rules.remove(&key).tried("cannot delete a rule")?;
    }
    control.clear_after = if next == NEVER { 0 } else { next.max(now + CLEAR_INTERVAL) };
    tables.set_control(&control)?;
    forget_narrow(tables)
}

fn any_narrow(tables: &Tables, ipv6_prefix: u32) -> Result<bool, Error> {
    for key in tables.prefix_rules.keys() {
        let key = key.tried("cannot read the rules")?;
        if is_narrow((key.prefix_len() - KEY_BITS) as u8, &key.data(), ipv6_prefix) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn full(error: MapError, kind: &'static str, most: u32) -> Error {
    match &error {
        // A hash map that is full says E2BIG, a trie ENOSPC.
        MapError::SyscallError(call) if matches!(call.io_error.raw_os_error(), Some(libc::E2BIG | libc::ENOSPC)) => {
            Error::TooManyRules { kind, most }
        }
        _ => Error::bpf("cannot write a rule")(&error),
    }
}
