//! All other features.

use ratelimit_common::{
    identity::source::{IPV4, IPV6},
    limits::{
        algorithm::Algorithm,
        limit::{Limit, Rate, SECOND},
        policy::{Ban, Policy, REJECT, SHADOW},
    },
};
use ratelimit_dataplane::program::loader::Settings;
use ratelimit_tests::per_second;

use super::{
    case::{Case, Drops},
    rules::{BARE, ENDLESS, MANY, four_services, hourly, limit, parents, services, windows, with_parent},
    traffic::{EXTENDED, MALFORMED, TAGGED, V4_SYN, V6},
};
use crate::state::never_reached;

/// The rows.
pub(super) const ROWS: [Case; 35] = [
    BARE,
    Case { sources: MANY, ..BARE },
    Case { sources: ENDLESS, ..BARE },
    Case { name: "IPv6", traffic: V6, ..BARE },
    Case { name: "IPv6", traffic: V6, sources: ENDLESS, ..BARE },
    Case { name: "rule, allowed source", rules: |bytecode| bytecode.set("0.0.0.0/0", Policy::ALLOWED), ..BARE },
    Case {
        name: "rule, denied source",
        rules: |bytecode| bytecode.set("0.0.0.0/0", Policy::DENIED),
        drops: Drops::All,
        ..BARE
    },
    Case { name: "over the limit", rules: |bytecode| bytecode.set("default", hourly()), drops: Drops::All, ..BARE },
    Case { name: "short burst", rules: |bytecode| bytecode.set("default", per_second(100_000_000, 1_000_000)), ..BARE },
    Case {
        name: "packets and bytes",
        rules: |bytecode| {
            let bytes = Some(Rate { amount: 50_000_000_000, period: SECOND });
            let packets = Some(Rate { amount: 100_000_000, period: SECOND });
            bytecode.set("default", limit(Limit { packets, bytes, burst: Some(100_000_000), ..Limit::default() }));
        },
        ..BARE
    },
    Case {
        name: "soft limit, over its extra share too",
        settings: |settings| Settings { soft: true, ..settings },
        rules: |bytecode| {
            let packets = Some(Rate { amount: 1_000, period: SECOND });
            bytecode.set("default", Policy { soft: 10, ..limit(Limit { packets, ..Limit::default() }) });
        },
        drops: Drops::All,
        ..BARE
    },
    Case {
        name: "over the limit, with answers",
        settings: |settings| Settings { actions: true, reject: true, ..settings },
        rules: |bytecode| bytecode.set("default", Policy { over_limit: REJECT, ..hourly() }),
        drops: Drops::All,
        ..BARE
    },
    Case {
        name: "window, over its limit",
        settings: |settings| Settings { windows: true, ..settings },
        rules: |bytecode| {
            let packets = Some(Rate { amount: 1, period: 3_600 * SECOND });
            bytecode.set("default", limit(Limit { packets, algorithm: Algorithm::SlidingWindow, ..Limit::default() }));
        },
        drops: Drops::All,
        ..BARE
    },
    Case {
        name: "windows, endless sources without a bucket",
        settings: |settings| Settings { windows: true, ..settings },
        rules: |bytecode| bytecode.set("default", windows(Algorithm::FixedWindow)),
        sources: ENDLESS,
        drops: Drops::Some,
        ..BARE
    },
    Case { name: "four services", settings: services, rules: four_services, traffic: V4_SYN, ..BARE },
    Case {
        name: "default with a parent /48, passing",
        settings: parents,
        rules: |bytecode| with_parent(bytecode, IPV6, 48, per_second(90_000_000, 90_000_000)),
        traffic: V6,
        ..BARE
    },
    Case {
        name: "default with a parent /48, passing",
        settings: parents,
        rules: |bytecode| with_parent(bytecode, IPV6, 48, per_second(90_000_000, 90_000_000)),
        traffic: V6,
        sources: MANY,
        ..BARE
    },
    Case {
        name: "default with a parent /48, passing",
        settings: parents,
        rules: |bytecode| with_parent(bytecode, IPV6, 48, per_second(90_000_000, 90_000_000)),
        traffic: V6,
        sources: ENDLESS,
        ..BARE
    },
    Case {
        name: "default with a parent /48, over the parent",
        settings: parents,
        rules: |bytecode| with_parent(bytecode, IPV6, 48, hourly()),
        traffic: V6,
        drops: Drops::All,
        ..BARE
    },
    Case {
        name: "default with an IPv6 parent, IPv4",
        settings: parents,
        rules: |bytecode| with_parent(bytecode, IPV6, 48, per_second(90_000_000, 90_000_000)),
        ..BARE
    },
    Case {
        name: "parent /24, over the parent",
        settings: parents,
        rules: |bytecode| with_parent(bytecode, IPV4, 24, hourly()),
        drops: Drops::All,
        ..BARE
    },
    Case {
        name: "costs",
        settings: |settings| Settings { costs: true, services: true, ..settings },
        rules: |bytecode| {
            four_services(bytecode);
            bytecode.set("default", never_reached());
        },
        traffic: V4_SYN,
        ..BARE
    },
    Case {
        name: "fixed window",
        settings: |settings| Settings { windows: true, ..settings },
        rules: |bytecode| bytecode.set("default", windows(Algorithm::FixedWindow)),
        ..BARE
    },
    Case {
        name: "sliding window",
        settings: |settings| Settings { windows: true, ..settings },
        rules: |bytecode| bytecode.set("default", windows(Algorithm::SlidingWindow)),
        ..BARE
    },
    Case {
        name: "sliding log, over its limit",
        settings: |settings| Settings { logs: true, ..settings },
        rules: |bytecode| {
            let rate = Rate { amount: 64, period: SECOND };
            let algorithm = Algorithm::SlidingLog;
            bytecode.set("default", limit(Limit { packets: Some(rate), algorithm, ..Limit::default() }));
        },
        drops: Drops::All,
        ..BARE
    },
    Case {
        name: "sliding log",
        settings: |settings| Settings { logs: true, ..settings },
        rules: |bytecode| {
            let rate = Rate { amount: 64, period: SECOND };
            let algorithm = Algorithm::SlidingLog;
            bytecode.set("default", limit(Limit { packets: Some(rate), algorithm, ..Limit::default() }));
        },
        sources: ENDLESS,
        drops: Drops::Some,
        ..BARE
    },
    Case { name: "eight IPv6 extension headers", traffic: EXTENDED, ..BARE },
    Case { name: "two VLAN tags", traffic: TAGGED, ..BARE },
    Case { name: "malformed, dropped", traffic: MALFORMED, drops: Drops::All, ..BARE },
    Case {
        name: "malformed, within the limit",
        settings: |settings| Settings { pass_malformed: true, ..settings },
        traffic: MALFORMED,
        ..BARE
    },
    Case {
        name: "over the limit, with events",
        rules: |bytecode| bytecode.set("default", hourly()),
        sources: MANY,
        drops: Drops::All,
        ..BARE
    },
    Case {
        name: "banned source",
        settings: |settings| Settings { bans: true, ..settings },
        rules: |bytecode| {
            let ban = Ban { time: 3_600 * SECOND, most: 3_600 * SECOND, after: 1, reserved: 0 };
            bytecode.set("default", Policy { ban, ..hourly() });
        },
        drops: Drops::All,
        ..BARE
    },
    Case {
        name: "over the limit in shadow",
        settings: |settings| Settings { actions: true, ..settings },
        rules: |bytecode| bytecode.set("default", Policy { over_limit: SHADOW, ..hourly() }),
        ..BARE
    },
    Case {
        name: "unknown sources within their limit",
        settings: |settings| Settings { unknown: 100_000_000, ..settings },
        sources: ENDLESS,
        ..BARE
    },
    Case {
        name: "unknown sources over their limit",
        settings: |settings| Settings { unknown: 1_000, ..settings },
        sources: ENDLESS,
        drops: Drops::All,
        ..BARE
    },
];
