//! Which policy a source has, worked out as the program does.

use aya::maps::{MapError, lpm_trie::Key};
use ratelimit_common::{
    policy::Policy,
    rule::Rule,
    source::{Source, masked},
};

use super::{Error, error::Tried as _, host, policies, tables::Tables};
use crate::prefix::Prefix;

/// The policy that a source has now, from the rules alone.
///
/// # Errors
///
/// [`Error::Bpf`] where the kernel refuses.
pub fn resolve(tables: &Tables, source: &Source) -> Result<Policy, Error> {
    let own = found(tables.source_rules.get(source, 0))?.filter(|rule| host::now() < rule.expires);
    let rule = match own {
        Some(rule) => Some(rule),
        None => longest_prefix(tables, source)?,
    };
    let id = rule.map_or(tables.control()?.default_policy, |rule| rule.policy);
    policies::read(tables, id)
}

/// The policy of packets from one address.
///
/// # Errors
///
/// [`Error::Bpf`] where the kernel refuses.
pub fn policy_for(tables: &Tables, address: &Prefix) -> Result<Policy, Error> {
    let address = address.source();
    let whole = address.bits(tables.control()?.ipv6_prefix as u8);
    // A part of an IPv6 source with a rule is a source of its own.
    match longest_prefix(tables, &address)? {
        Some(rule) if rule.prefix > whole => policies::read(tables, rule.policy),
        _ => resolve(tables, &Source { prefix: whole, address: masked(address.address, whole), ..address }),
    }
}

/// The rule of the longest prefix around a source that has not ended.
fn longest_prefix(tables: &Tables, source: &Source) -> Result<Option<Rule>, Error> {
    let mut prefix = Some(source.prefix);
    while let Some(bits) = prefix {
        let (bits, data) = source.prefix_key(bits);
        let Some(rule) = found(tables.prefix_rules.get(&Key::new(bits, data), 0))? else { break };
        if host::now() < rule.expires {
            return Ok(Some(rule));
        }
        prefix = rule.prefix.checked_sub(1);
    }
    Ok(None)
}

fn found(outcome: Result<Rule, MapError>) -> Result<Option<Rule>, Error> {
    match outcome {
        Ok(rule) => Ok(Some(rule)),
        Err(MapError::KeyNotFound) => Ok(None),
        Err(error) => Err(error).tried("cannot read a rule"),
    }
}
