//! Where a rule is kept: with its source, or in the trie of prefixes.

use aya::maps::{MapError, lpm_trie::Key};
use ratelimit_common::{
    identity::{
        class::Class,
        source::{IPV4, PrefixKey, Source},
    },
    maps::names,
    rules::rule::Rule,
};

use crate::dataplane::{Error, error::Tried as _, tables::open::Tables};
use crate::prefix::Prefix;

/// Bits of an IPv6 address.
const IPV6_BITS: u8 = 128;

/// Where a rule for a prefix is kept.
pub(crate) enum Place {
    /// One source, found by its key.
    Source(Source),
    /// Several sources, or a part of one.
    Prefix(Key<PrefixKey>),
}

impl Place {
    /// That of a rule of this class, where so many bits of an IPv6 address make a source.
    pub(crate) fn of(prefix: &Prefix, class: Class, ipv6_prefix: u32) -> Self {
        let source = prefix.source().of_class(class);
        if is_single(prefix, ipv6_prefix as u8) {
            return Self::Source(source);
        }
        let (bits, data) = source.prefix_key(prefix.bits());
        Self::Prefix(Key::new(bits, data))
    }

    /// Writes what is to be there.
    pub(crate) fn insert(&self, tables: &mut Tables, rule: &Rule) -> Result<(), Error> {
        match self {
            Self::Source(source) => {
                let outcome = tables.source_rules.insert(source, rule, 0);
                outcome.map_err(|error| full(error, "source", names::SOURCE_RULES_MAX))
            }
            Self::Prefix(key) => {
                let outcome = tables.prefix_rules.insert(key, rule, 0);
                outcome.map_err(|error| full(error, "prefix", names::PREFIX_RULES_MAX))
            }
        }
    }

    /// Deletes what is there.
    pub(crate) fn remove(&self, tables: &mut Tables) -> Result<(), Error> {
        let outcome = match self {
            Self::Source(source) => tables.source_rules.remove(source),
            Self::Prefix(key) => tables.prefix_rules.remove(key),
        };
        outcome.or_else(missing).tried("cannot delete a rule")
    }
}

/// Whether a prefix is one source, where so many bits of an IPv6 address make one.
#[must_use]
pub(crate) fn is_single(prefix: &Prefix, ipv6_prefix: u8) -> bool {
    let source = prefix.source();
    // A part of an IPv6 source can be a source of its own, which must find the rule of the whole as that of a prefix around it.
    let has_no_parts = source.family == IPV4 || prefix.bits() == IPV6_BITS;
    has_no_parts && prefix.bits() == source.bits(ipv6_prefix)
}

/// Whether a rule is for a part of what makes one IPv6 source.
pub(crate) fn is_narrow(source: &Source, ipv6_prefix: u32) -> bool {
    source.prefix > source.bits(ipv6_prefix as u8)
}

/// That nothing was there to delete is no failure.
pub(crate) fn missing(error: MapError) -> Result<(), MapError> {
    match &error {
        MapError::KeyNotFound => Ok(()),
        MapError::SyscallError(call) if call.io_error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        _ => Err(error),
    }
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
