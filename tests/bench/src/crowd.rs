//! Very many rules of other sources.

use anyhow::Result;
use aya::maps::lpm_trie::Key;
use ratelimit_common::{
    identity::{filter::Filter, source::Source},
    limits::policy::{ALLOWED_ID, PolicyId},
    rules::rule::{COMMAND, Covered, NEVER, Rule},
};
use ratelimit_dataplane::sys::host;
use ratelimit_tests::{Bytecode, Sources, Walker};

/// First number of addresses with rules. Those of the traffic are below.
const OTHERS: u32 = 1 << 30;

/// Allows `count` prefixes of IPv4 that contain no source of the traffic.
pub(crate) fn prefix_rules(bytecode: &mut Bytecode, sources: Sources, count: usize) -> Result<()> {
    let traffic = addresses(sources);
    let drawn = (0..).map(|number| {
        let draw = Walker::draw(number);
        let bits = 17 + (draw >> 32) as u32 % 12;
        (draw as u32 & u32::MAX << (32 - bits), bits as u8)
    });
    let elsewhere = drawn.filter(|(address, bits)| {
        let last = address | u32::MAX >> bits;
        let next = traffic.partition_point(|source| source < address);
        traffic.get(next).is_none_or(|source| *source > last)
    });
    let mut filter = filter(bytecode)?;
    for (address, prefix) in elsewhere.take(count) {
        filter.add(&Source::v4(address.to_be_bytes()));
        let (bits, data) = Source::v4(address.to_be_bytes()).prefix_key(prefix);
        bytecode.tables.prefix_rules.open_mut()?.insert(&Key::new(bits, data), rule(prefix, ALLOWED_ID), 0)?;
    }
    bytecode.tables.rule_filter.open_mut()?.set(0, filter, 0)?;
    Ok(bytecode.tables.renew()?)
}

/// Sets this policy for `count` addresses of IPv4 that are no sources of the traffic.
pub(crate) fn host_rules(bytecode: &mut Bytecode, count: u32, policy: PolicyId) -> Result<()> {
    let mut filter = filter(bytecode)?;
    for number in OTHERS..OTHERS + count {
        let source = Source::v4(Walker::source(number).octets());
        filter.add(&source);
        bytecode.tables.source_rules.open_mut()?.insert(source, rule(32, policy), 0)?;
    }
    bytecode.tables.rule_filter.open_mut()?.set(0, filter, 0)?;
    Ok(bytecode.tables.renew()?)
}

/// Bans one address in each of `count` IPv4 /16. None is a source of the traffic, but for some by chance.
pub(crate) fn bans(bytecode: &Bytecode, count: u32) -> Result<()> {
    let (bans, now) = (bytecode.tables.bans()?, host::now());
    for number in 0..count {
        bans.insert(&Source::v4((number << 16 | 1).to_be_bytes()), u64::MAX, now);
    }
    Ok(())
}

/// Returns the traffic's sources in ascending order.
fn addresses(sources: Sources) -> Vec<u32> {
    let count = match sources {
        Sources::Count(count) => count,
        Sources::Endless => 0,
    };
    let mut addresses: Vec<u32> = (0..count).map(|number| Walker::source(number).to_bits()).collect();
    addresses.sort_unstable();
    addresses
}

/// Returns the filter with the rules so far.
fn filter(bytecode: &Bytecode) -> Result<Filter> {
    Ok(bytecode.tables.rule_filter.open()?.get(&0, 0)?)
}

fn rule(prefix: u8, policy: PolicyId) -> Rule {
    Rule { policy, prefix, origin: COMMAND, covered: Covered::NONE, expires: NEVER }
}
