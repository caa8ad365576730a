//! Reads and writes many rules in one system call.

use std::os::fd::AsFd as _;

use aya::maps::{IterableMap, lpm_trie::Key};
use ratelimit_common::{
    identity::source::{PrefixKey, Source},
    maps::names::{PREFIX_RULES_MAX, SOURCE_RULES_MAX},
    rules::rule::Rule,
};

use crate::{
    Error,
    sys::bpf,
    tables::{open::Tables, prefix_key::prefix_key},
};

/// Returns all rules of single sources.
pub fn sources(tables: &Tables) -> Result<Vec<(Source, Rule)>, Error> {
    bpf::entries(IterableMap::map(tables.source_rules.open()?).fd().as_fd())
}

/// Returns all rules of prefixes, each with its prefix.
pub fn prefixes(tables: &Tables) -> Result<Vec<(Source, Rule)>, Error> {
    let map = IterableMap::map(tables.prefix_rules.open()?);
    Ok(with_prefixes(bpf::trie_entries(map.fd().as_fd())?))
}

/// Returns all rules of single sources if there are at most `most`.
pub fn few_sources(tables: &Tables, most: usize) -> Result<Option<Vec<(Source, Rule)>>, Error> {
    bpf::few::<_, _, u32>(IterableMap::map(tables.source_rules.open()?).fd().as_fd(), most)
}

/// Returns all rules of prefixes if there are at most `most`.
pub fn few_prefixes(tables: &Tables, most: usize) -> Result<Option<Vec<(Source, Rule)>>, Error> {
    let map = IterableMap::map(tables.prefix_rules.open()?);
    Ok(bpf::few::<_, _, Key<PrefixKey>>(map.fd().as_fd(), most)?.map(with_prefixes))
}

/// Calls `visit` with each rule, first those of single sources, as long as `goes_on` agrees. Returns whether it has read
/// all.
pub fn each_while(
    tables: &Tables,
    mut goes_on: impl FnMut() -> bool,
    mut visit: impl FnMut(Source, Rule),
) -> Result<bool, Error> {
    let map = IterableMap::map(tables.source_rules.open()?);
    if !bpf::each_while::<Source, Rule, u32>(map.fd().as_fd(), &mut goes_on, &mut visit)? {
        return Ok(false);
    }
    let map = IterableMap::map(tables.prefix_rules.open()?);
    bpf::each_while::<Key<PrefixKey>, Rule, Key<PrefixKey>>(map.fd().as_fd(), goes_on, |key, rule| {
        visit(key.data().source(key.prefix_len()), rule);
    })
}

fn with_prefixes(entries: Vec<(Key<PrefixKey>, Rule)>) -> Vec<(Source, Rule)> {
    entries.into_iter().map(|(key, rule)| (key.data().source(key.prefix_len()), rule)).collect()
}

/// Writes rules of single sources.
///
/// # Errors
///
/// [`Error::TooManyRules`] if the map is full. Some rules may be written then.
pub fn set_sources(tables: &mut Tables, rules: &[(Source, Rule)]) -> Result<(), Error> {
    let (keys, values): (Vec<Source>, Vec<Rule>) = rules.iter().copied().unzip();
    let map = IterableMap::map(tables.source_rules.open()?);
    bpf::update(map.fd().as_fd(), &keys, &values).map_err(|error| refused(&error, "source", SOURCE_RULES_MAX))
}

/// Writes rules of prefixes.
///
/// # Errors
///
/// [`Error::TooManyRules`] if the map is full. Some rules may be written then.
pub fn set_prefixes(tables: &mut Tables, rules: &[(Source, Rule)]) -> Result<(), Error> {
    let (keys, values): (Vec<_>, Vec<Rule>) = rules.iter().map(|(source, rule)| (prefix_key(source), *rule)).unzip();
    let map = IterableMap::map(tables.prefix_rules.open()?);
    bpf::update(map.fd().as_fd(), &keys, &values).map_err(|error| refused(&error, "prefix", PREFIX_RULES_MAX))
}

fn refused(error: &std::io::Error, kind: &'static str, most: u32) -> Error {
    // A full hash map returns E2BIG, a full trie ENOSPC.
    match error.raw_os_error() {
        Some(libc::E2BIG | libc::ENOSPC) => Error::TooManyRules { kind, most },
        _ => Error::bpf("cannot write a rule")(error),
    }
}
