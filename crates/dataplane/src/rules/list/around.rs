//! The rules around one source, the narrowest first.

use std::time::Duration;

use ratelimit_base::text::prefix::Prefix;
use ratelimit_common::{
    identity::{
        class::{ANY, Class},
        service::Service,
        source::Source,
    },
    limits::policy::ALLOWED_ID,
    rules::{
        comment,
        rule::{FILLED, Rule},
    },
};

use super::{Listed, Specs, default, default_of, list, listed, of_entries};
use crate::{
    Error,
    rules::{
        comments::{self, Comments},
        overlap,
        rule_key::Place,
        services::Services,
        target::{Sources, Target},
    },
    sys::host,
    tables::{open::Tables, rule_maps},
};

/// Returns the prefix with the rule *allow* for all services that is the narrowest rule around a target.
pub fn allow_around(tables: &Tables, target: Target) -> Result<Option<Prefix>, Error> {
    let Sources::Prefix(prefix) = target.sources else { return Ok(None) };
    let (source, now) = (prefix.source(), host::now());
    let of_allow = |rule: Rule, bits| (rule.policy == ALLOWED_ID).then(|| Prefix::of(&source.shortened(bits), bits));
    if target.service != Service::Any {
        let whole = Place::of(&prefix, ANY, tables.control()?.ipv6_prefix).get(tables)?;
        if let Some(rule) = whole.and_then(|rule| rule.at(now)) {
            return Ok(of_allow(rule, prefix.bits()));
        }
    }
    let mut found = None;
    each_around(tables, &source, ANY, prefix.bits().checked_sub(1), |rule| {
        found = of_allow(rule, rule.prefix);
        false
    })?;
    Ok(found)
}

/// Returns the prefix around a target that bans have filled, with the time until it ends.
pub fn filled_around(tables: &Tables, target: Target) -> Result<Option<(Prefix, Duration)>, Error> {
    let Sources::Prefix(prefix) = target.sources else { return Ok(None) };
    let Some(class) = Services::read(tables)?.class(target.service) else { return Ok(None) };
    let (source, mut found) = (prefix.source(), None);
    each_around(tables, &source, class, prefix.bits().checked_sub(1), |rule| {
        if rule.origin == FILLED {
            let left = Duration::from_nanos(rule.expires.saturating_sub(host::now()));
            found = Some((Prefix::of(&source.shortened(rule.prefix), rule.prefix), left));
        }
        rule.origin != FILLED
    })?;
    Ok(found)
}

/// Returns the narrowest unexpired rule for the same service around a target.
pub fn narrowest_around(tables: &Tables, target: Target) -> Result<Option<Listed>, Error> {
    let Sources::Prefix(prefix) = target.sources else { return Ok(None) };
    let Some(class) = Services::read(tables)?.class(target.service) else { return Ok(None) };
    let (source, mut found) = (prefix.source(), None);
    each_around(tables, &source, class, prefix.bits().checked_sub(1), |rule| {
        found = Some(Prefix::of(&source.shortened(rule.prefix), rule.prefix));
        false
    })?;
    found.map_or(Ok(None), |around| super::get(tables, Target::prefix(around).of(target.service)))
}

/// Calls `found` with each unexpired rule in the trie around a source, the longest prefix first. `longest` is the most
/// bits of a prefix. Stops when `found` returns false.
fn each_around(
    tables: &Tables,
    source: &Source,
    class: Class,
    mut longest: Option<u8>,
    mut found: impl FnMut(Rule) -> bool,
) -> Result<(), Error> {
    let now = host::now();
    while let Some(bits) = longest {
        let place = Place::prefix(&source.shortened(bits).of_class(class));
        let Some(rule) = place.longest(tables)? else { break };
        let goes_on = rule.at(now).is_none_or(&mut found);
        if !goes_on {
            break;
        }
        longest = rule.prefix.checked_sub(1);
    }
    Ok(())
}

/// Returns the unexpired rules for narrower sources or services inside a rule's prefix, without their comments.
pub fn inside(tables: &Tables, target: Target) -> Result<Vec<Listed>, Error> {
    let Sources::Prefix(prefix) = target.sources else { return Ok(Vec::new()) };
    if prefix.is_host() {
        // Only its own rules for other services can be inside, and the maps may have a million others.
        let services = Services::read(tables)?;
        let services = [Service::Any].into_iter().chain(services.iter().map(|(service, _)| service));
        let others = services.map(|service| target.of(service)).filter(|other| *other != target);
        return others.filter_map(|other| super::without_comment(tables, other).transpose()).collect();
    }
    let is_inside = |source: &Source| prefix.contains(&Prefix::of(source, source.prefix));
    let rules = rule_maps::sources(tables)?.into_iter().chain(rule_maps::prefixes(tables)?);
    let entries = rules.filter(|(source, _)| is_inside(source)).collect();
    let mut inside = of_entries(tables, entries)?;
    inside.retain(|rule| rule.target != target);
    Ok(inside)
}

/// Returns the rules for other services with packets of a target: all for the same or for narrower sources, and for each
/// service the one that applies to the sources otherwise. Of the default, only what it does not give way to anyway.
pub fn meeting(tables: &Tables, target: Target) -> Result<Vec<Listed>, Error> {
    let services = Services::read(tables)?;
    let is_default = target.sources == Sources::Default;
    let mut found = match (services.is_empty(), target.service) {
        (true, _) => return Ok(Vec::new()),
        (false, Service::Any) if is_default => Vec::new(),
        (false, _) if is_default => {
            list(tables)?.into_iter().filter(|rule| rule.target.sources != Sources::Default).collect()
        }
        (false, _) => inside(tables, target)?,
    };
    for class in [ANY].into_iter().chain(services.iter().map(|(_, class)| class)) {
        found.extend(match target.sources {
            Sources::Default => default_of(tables, class)?,
            Sources::Prefix(prefix) => {
                let is_around = |rule: &Listed| match rule.target.sources {
                    Sources::Default => true,
                    Sources::Prefix(of) => !prefix.contains(&of),
                };
                around(tables, &prefix.source(), class)?.into_iter().find(is_around)
            }
        });
    }
    found.retain(|rule| overlap::meet(rule.target.service, target.service));
    Ok(found)
}

/// Returns whether a source has an unexpired rule of its class whose prefix has at least so many bits.
pub fn has_rule(tables: &Tables, least: u8, source: &Source) -> Result<bool, Error> {
    let single = Place::Source(*source).get(tables)?.and_then(|rule| rule.at(host::now()));
    if single.is_some_and(|rule| rule.prefix >= least) {
        return Ok(true);
    }
    let mut is_found = false;
    each_around(tables, source, source.class as Class, Some(source.prefix), |rule| {
        is_found = rule.prefix >= least;
        false
    })?;
    Ok(is_found)
}

/// Returns the rules for a source in one class, and the default: the longest prefix first. The first one applies.
///
/// # Errors
///
/// [`Error::Bpf`] if the kernel refuses.
pub fn around(tables: &Tables, source: &Source, class: Class) -> Result<Vec<Listed>, Error> {
    let (source, now) = (source.of_class(class), host::now());
    let single = Place::Source(source).get(tables)?.and_then(|rule| rule.at(now));
    let mut rules: Vec<Rule> = single.into_iter().collect();
    each_around(tables, &source, class, Some(source.prefix), |rule| {
        // The rule of a whole source can be in both places.
        if rules.last().is_none_or(|last| last.prefix != rule.prefix) {
            rules.push(rule);
        }
        true
    })?;
    let service = Services::read(tables)?.of_class(class).unwrap_or_default();
    let of_rule = |rule: &Rule| source.shortened(rule.prefix).of_class(class);
    let keys: Vec<Source> = rules.iter().flat_map(|rule| comments::all_keys(&of_rule(rule), rule)).collect();
    let entry = tables.classes.get(u32::from(class))?;
    let of_default = comment::of_default(class, entry.default_policy, entry.default_origin);
    let keys: Vec<Source> = keys.into_iter().chain([of_default]).collect();
    let mut specs = Specs::of_all(tables, Comments::of(tables, &keys)?);
    let mut found = Vec::new();
    for rule in rules {
        let source = of_rule(&rule);
        let target = Target::prefix(Prefix::of(&source, rule.prefix)).of(service);
        found.extend(listed(&mut specs, target, &source, rule)?);
    }
    found.extend(default(&mut specs, Target::DEFAULT.of(service), class)?);
    Ok(found)
}
