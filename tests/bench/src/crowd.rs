//! Very many rules of other sources.

use anyhow::Result;
use aya::maps::lpm_trie::Key;
use ratelimit_common::{
    identity::source::Source,
    limits::policy::{ALLOWED_ID, PolicyId},
    rules::rule::{COMMAND, Covered, NEVER, Rule},
};
use ratelimit_dataplane::{rules::filter, sys::host};
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
    let prefixes: Vec<_> =
        elsewhere.take(count).map(|(address, bits)| Source::v4(address.to_be_bytes()).shortened(bits)).collect();
    filter::add(&mut bytecode.tables, prefixes.iter())?;
    for source in &prefixes {
        let (bits, data) = source.prefix_key(source.prefix);
        bytecode.tables.prefix_rules.open_mut()?.insert(&Key::new(bits, data), rule(source.prefix, ALLOWED_ID), 0)?;
    }
    Ok(bytecode.tables.renew()?)
}

/// Sets this policy for `count` addresses of IPv4 that are no sources of the traffic.
pub(crate) fn host_rules(bytecode: &mut Bytecode, count: u32, policy: PolicyId) -> Result<()> {
    let sources: Vec<_> = (OTHERS..OTHERS + count).map(|number| Source::v4(Walker::source(number).octets())).collect();
    filter::add(&mut bytecode.tables, sources.iter())?;
    for source in sources {
        bytecode.tables.source_rules.open_mut()?.insert(source, rule(32, policy), 0)?;
    }
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

fn rule(prefix: u8, policy: PolicyId) -> Rule {
    Rule { policy, prefix, origin: COMMAND, covered: Covered::NONE, expires: NEVER }
}
