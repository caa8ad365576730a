//! The place of a rule: with its source, or in the trie of prefixes.

use aya::maps::{MapError, lpm_trie::Key};
use ratelimit_base::text::prefix::Prefix;
use ratelimit_common::{
    identity::{
        class::Class,
        source::{IPV4, PrefixKey, Source},
    },
    rules::rule::Rule,
};

use crate::{
    Error,
    error::Tried as _,
    tables::{open::Tables, prefix_key::prefix_key},
};

/// Bits of an IPv6 address.
const IPV6_BITS: u8 = 128;

/// Where the rule of a prefix is kept.
#[derive(Clone)]
pub enum Place {
    /// With one source, found by its key.
    Source(Source),
    /// In the trie: the prefix has several sources, or is a part of one.
    Prefix(Key<PrefixKey>),
}

impl Place {
    /// Returns the place of a rule of this class, if so many bits of an IPv6 address make a source.
    pub fn of(prefix: &Prefix, class: Class, ipv6_prefix: u32) -> Self {
        let source = prefix.source().of_class(class);
        if is_single(prefix, ipv6_prefix as u8) { Self::Source(source) } else { Self::prefix(&source) }
    }

    /// Returns the place of a prefix in the trie.
    pub fn prefix(source: &Source) -> Self {
        Self::Prefix(prefix_key(source))
    }

    /// Returns whether it is the place of one source.
    pub fn is_source(&self) -> bool {
        matches!(self, Self::Source(_))
    }

    /// Returns the rule in this place.
    pub fn get(&self, tables: &Tables) -> Result<Option<Rule>, Error> {
        let found = self.longest(tables)?;
        Ok(found.filter(|rule| match self {
            Self::Source(_) => true,
            Self::Prefix(key) => rule.prefix == key.data().source(key.prefix_len()).prefix,
        }))
    }

    /// Returns the rule in this place. If a place in the trie has none, that of the longest prefix around it.
    pub fn longest(&self, tables: &Tables) -> Result<Option<Rule>, Error> {
        let found = match self {
            Self::Source(source) => tables.source_rules.open()?.get(source, 0),
            Self::Prefix(key) => tables.prefix_rules.open()?.get(key, 0),
        };
        match found {
            Ok(rule) => Ok(Some(rule)),
            Err(MapError::KeyNotFound) => Ok(None),
            Err(error) => Err(error).tried("cannot read a rule"),
        }
    }

    /// Deletes the rule in this place, if there is one.
    pub fn remove(&self, tables: &mut Tables) -> Result<(), Error> {
        let outcome = match self {
            Self::Source(source) => tables.source_rules.open_mut()?.remove(source),
            Self::Prefix(key) => tables.prefix_rules.open_mut()?.remove(key),
        };
        outcome.or_else(missing).tried("cannot delete a rule")
    }
}

/// Returns whether a prefix is one source, if so many bits of an IPv6 address make one.
#[must_use]
pub fn is_single(prefix: &Prefix, ipv6_prefix: u8) -> bool {
    let source = prefix.source();
    // A part of an IPv6 source can be a source of its own. It must find the rule of the whole in the trie.
    let has_no_parts = source.family == IPV4 || prefix.bits() == IPV6_BITS;
    has_no_parts && prefix.bits() == source.bits(ipv6_prefix)
}

/// Returns whether a rule is for a part of one IPv6 source.
pub fn is_narrow(source: &Source, ipv6_prefix: u32) -> bool {
    source.prefix > source.bits(ipv6_prefix as u8)
}

/// Turns the error for a missing entry into success.
fn missing(error: MapError) -> Result<(), MapError> {
    match &error {
        MapError::KeyNotFound => Ok(()),
        MapError::SyscallError(call) if call.io_error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        _ => Err(error),
    }
}
