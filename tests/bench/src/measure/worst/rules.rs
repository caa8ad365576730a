//! The rules of the rows.

use std::{cmp::Reverse, net::Ipv6Addr};

use ratelimit_common::limits::{
    algorithm::Algorithm,
    limit::{Limit, Rate, SECOND},
    policy::Policy,
};
use ratelimit_dataplane::{
    program::loader::Settings,
    rules::spec::{ParentLimit, RuleSpec, Scope},
};
use ratelimit_tests::{Bytecode, Sources, per_second};

use super::{
    case::{Case, Drops},
    traffic::{V4, V6_NETWORK},
};
use crate::state::never_reached;

pub(super) const ONE: Sources = Sources::Count(1);
pub(super) const MANY: Sources = Sources::Count(64_000);
pub(super) const ENDLESS: Sources = Sources::Endless;

pub(super) const BARE: Case = Case {
    name: "bare default",
    settings: |settings| settings,
    rules: |bytecode| bytecode.set("default", never_reached()),
    traffic: V4,
    sources: ONE,
    drops: Drops::None,
};

pub(super) const FOUR: &[u8] = &[96, 104, 112, 128];
pub(super) const FIVE: &[u8] = &[80, 96, 104, 112, 128];

pub(super) fn services(settings: Settings) -> Settings {
    Settings { services: true, ..settings }
}

/// Gives a new connection four services.
pub(super) fn four_services(bytecode: &mut Bytecode) {
    for service in ["tcp-syn", "tcp/9", "tcp"] {
        bytecode.set(&format!("default {service}"), never_reached());
    }
}

/// Returns a limit of one packet per hour.
pub(super) fn hourly() -> Policy {
    limit(Limit { packets: Some(Rate { amount: 1, period: 3_600 * SECOND }), burst: Some(1), ..Limit::default() })
}

pub(super) fn limit(limit: Limit) -> Policy {
    limit.policy().unwrap_or(Policy::UNLIMITED)
}

/// Returns a limit of windows or logs that one source cannot reach.
pub(super) fn windows(algorithm: Algorithm) -> Policy {
    limit(Limit { packets: Some(Rate { amount: 16_000_000, period: SECOND }), algorithm, ..Limit::default() })
}

pub(super) fn with_parent(bytecode: &mut Bytecode, family: u8, bits: u8, policy: Policy) {
    let parents = vec![ParentLimit { scope: Scope::Prefix(family, Reverse(bits)), policy }];
    bytecode.set("default", RuleSpec { policy: never_reached(), parents });
}

/// Returns settings with space for the buckets of parents too.
pub(super) fn parents(settings: Settings) -> Settings {
    Settings { parents: true, buckets: 4 * settings.buckets, ..settings }
}

/// Sets rules for parts of one IPv6 source, one for each of these numbers of bits.
pub(super) fn narrow(bytecode: &mut Bytecode, bits: &[u8], policy: Policy) {
    let [a, b, ..] = V6_NETWORK.segments();
    for bits in bits {
        let prefix = Ipv6Addr::new(a, b, 0, 1, 0, 0, 0, 1);
        let mask = u128::MAX << (128 - u32::from(*bits));
        let prefix = Ipv6Addr::from_bits(prefix.to_bits() & mask);
        bytecode.set(&format!("{prefix}/{bits}"), policy);
    }
    bytecode.set("default", per_second(100_000_000, 100_000_000));
}
