//! Finds the rules *allow* of an operator that a change would overrule.

use std::collections::{BTreeSet, HashMap};

use ratelimit_base::text::prefix::Prefix;
use ratelimit_common::{
    identity::{
        class::{ANY, Class},
        source::Source,
    },
    limits::policy::ALLOWED_ID,
    rules::rule::{NEVER, Rule},
};

use crate::{
    Error,
    error::Overruled,
    rules::{
        batch::{
            change::Protected,
            free_space::{Entry, Existing, Plan},
        },
        services::Services,
        target::Target,
    },
    tables::open::Tables,
};

/// Refuses a change that would overrule a protected rule. A rule that allows, too, overrules none.
///
/// # Errors
///
/// [`Error::Allowed`] with all of them.
pub(super) fn check(
    tables: &Tables,
    plan: &Plan,
    existing: &Existing,
    protected: Protected,
    now: u64,
) -> Result<(), Error> {
    if protected == Protected::None {
        return Ok(());
    }
    let is_allow = |rule: &Rule| rule.at(now).is_some_and(|rule| rule.policy == ALLOWED_ID);
    let is_around = protected == Protected::Around;
    let allowed = existing.prefixes.iter().filter(|(_, rule)| is_around && is_allow(rule));
    let lengths: BTreeSet<u8> = allowed.map(|(prefix, _)| prefix.prefix).collect();
    // A rule without an end also ends what waits below a temporary one.
    let ends_allow = |old: &Rule, new: &Rule| {
        is_allow(old) || new.expires == NEVER && old.below().is_some_and(|below| below.policy == ALLOWED_ID)
    };
    let find =
        |rules: &HashMap<Source, Rule>, source: Source| rules.get(&source).is_some_and(is_allow).then_some(source);
    // An allow for all services is around one of a service.
    let same = |rules: &HashMap<Source, Rule>, source: &Source, new: &Rule| {
        let of_all = || is_around.then(|| find(rules, source.of_class(ANY)))?;
        let replaced = rules.get(source).is_some_and(|old| ends_allow(old, new)).then_some(*source);
        replaced.or_else(of_all)
    };
    let around = |source: &Source| {
        let shorter = lengths.range(..source.prefix).rev().map(|bits| source.shortened(*bits));
        let mut each = shorter.flat_map(|prefix| [source.class as Class, ANY].map(|class| prefix.of_class(class)));
        each.find_map(|prefix| find(&existing.prefixes, prefix))
    };
    let of = |rules, (source, rule): &Entry| {
        let allowed = || same(rules, source, rule).or_else(|| around(source));
        if rule.policy == ALLOWED_ID { None } else { allowed().map(|allowed| (*source, allowed)) }
    };
    let of_sources = plan.sources.iter().filter_map(|entry| of(&existing.sources, entry));
    let of_prefixes = plan.prefixes.iter().filter_map(|entry| of(&existing.prefixes, entry));
    let overruled: Vec<(Source, Source)> = of_sources.chain(of_prefixes).collect();
    if overruled.is_empty() {
        return Ok(());
    }
    let services = Services::read(tables)?;
    let target = |source: &Source| {
        let service = services.of_class(source.class as Class).unwrap_or_default();
        Target::prefix(Prefix::of(source, source.prefix)).of(service).to_string()
    };
    let in_words = |(rule, allowed): &(Source, Source)| Overruled { rule: target(rule), allowed: target(allowed) };
    Err(Error::Allowed(overruled.iter().map(in_words).collect()))
}
