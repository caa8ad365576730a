//! The rows of the table of worst cases.

use std::{
    cmp::Reverse,
    net::{Ipv4Addr, Ipv6Addr},
};

use ratelimit::dataplane::{
    program::loader::Settings,
    rules::spec::{ParentLimit, RuleSpec, Scope},
};
use ratelimit_common::{
    identity::source::{IPV4, IPV6},
    limits::{
        algorithm::Algorithm,
        limit::{Limit, Rate, SECOND},
        policy::{Ban, Policy, REJECT, SHADOW},
    },
};
use ratelimit_tests::{Bytecode, EXTENSIONS, Frame, Sources, Wrap, framed, per_second};

use crate::{
    configurations::PORT,
    measure::worst::{Case, Drops, narrow},
    state::never_reached,
};

/// Packets that differ in 32 bits of their source.
#[derive(Clone, Copy)]
pub(crate) struct Traffic {
    pub(crate) frame: fn() -> Vec<u8>,
    /// Offset of those bits.
    pub(crate) source_at: u32,
}

pub(crate) const V6_NETWORK: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0);

/// An address in 2001:db8:0:1::/64.
const fn inside(last: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, last)
}

/// The first source of the walker.
const FIRST: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);

/// UDP over IPv4.
pub(crate) const V4: Traffic = Traffic { frame: || Frame::udp(FIRST, PORT).bytes(), source_at: 26 };
/// UDP from the part with a rule. Several sources differ in the last bits.
const PART: Traffic = Traffic { frame: || Frame::udp(inside(1), PORT).bytes(), source_at: 34 };
/// UDP from the same /64, outside of the part. Several sources differ in the last bits.
const BESIDE: Traffic = Traffic { frame: || Frame::udp(inside(0x7777), PORT).bytes(), source_at: 34 };
/// UDP from the same /32. Several sources differ in the /64.
const V6: Traffic =
    Traffic { frame: || Frame::udp(Ipv6Addr::new(0x2001, 0xdb8, 7, 7, 0, 0, 0, 1), PORT).bytes(), source_at: 26 };
/// A new connection from that part, with four services.
const PART_SYN: Traffic = Traffic { frame: || Frame::syn(inside(1), PORT).bytes(), source_at: 34 };
const BESIDE_SYN: Traffic = Traffic { frame: || Frame::syn(inside(0x7777), PORT).bytes(), source_at: 34 };
const V4_SYN: Traffic = Traffic { frame: || Frame::syn(FIRST, PORT).bytes(), source_at: 26 };
const EXTENDED: Traffic = Traffic {
    frame: || {
        let kinds = EXTENSIONS.iter().map(|(_, kind)| *kind).filter(|kind| *kind != 0).cycle().take(7);
        let packet = kinds.fold(Wrap::udp(PORT), Wrap::behind).behind(0);
        framed(&packet.v6(Ipv6Addr::new(0x2001, 0xdb8, 7, 7, 0, 0, 0, 1), 64), &[])
    },
    source_at: 26,
};
const TAGGED: Traffic = Traffic { frame: || Frame::udp(FIRST, PORT).tag(7).tag(8).bytes(), source_at: 34 };
/// An IPv4 header that claims more bytes than the frame has.
const MALFORMED: Traffic = Traffic {
    frame: || {
        let mut frame = Frame::udp(FIRST, PORT).bytes();
        frame[16..18].copy_from_slice(&u16::MAX.to_be_bytes());
        frame
    },
    source_at: 26,
};

const ONE: Sources = Sources::Count(1);
const MANY: Sources = Sources::Count(64_000);
const ENDLESS: Sources = Sources::Endless;

const BARE: Case = Case {
    name: "bare default",
    settings: |settings| settings,
    rules: |bytecode| bytecode.set("default", never_reached()),
    traffic: V4,
    sources: ONE,
    drops: Drops::None,
};

const FOUR: &[u8] = &[96, 104, 112, 128];
const FIVE: &[u8] = &[80, 96, 104, 112, 128];

fn services(settings: Settings) -> Settings {
    Settings { services: true, ..settings }
}

/// Gives a new connection four services.
fn four_services(bytecode: &mut Bytecode) {
    for service in ["tcp-syn", "tcp/9", "tcp"] {
        bytecode.set(&format!("default {service}"), never_reached());
    }
}

/// Returns a limit of one packet per hour.
fn hourly() -> Policy {
    limit(Limit { packets: Some(Rate { amount: 1, period: 3_600 * SECOND }), burst: Some(1), ..Limit::default() })
}

fn limit(limit: Limit) -> Policy {
    limit.policy().unwrap_or(Policy::UNLIMITED)
}

/// Returns a limit of windows or logs that one source cannot reach.
fn windows(algorithm: Algorithm) -> Policy {
    limit(Limit { packets: Some(Rate { amount: 16_000_000, period: SECOND }), algorithm, ..Limit::default() })
}

fn with_parent(bytecode: &mut Bytecode, family: u8, bits: u8, policy: Policy) {
    let parents = vec![ParentLimit { scope: Scope::Prefix(family, Reverse(bits)), policy }];
    bytecode.set("default", RuleSpec { policy: never_reached(), parents });
}

/// Returns settings with space for the buckets of parents too.
fn parents(settings: Settings) -> Settings {
    Settings { parents: true, buckets: 4 * settings.buckets, ..settings }
}

/// All rows.
pub(crate) const ALL: [Case; 49] = [
    BARE,
    Case { sources: MANY, ..BARE },
    Case { sources: ENDLESS, ..BARE },
    Case { name: "IPv6", traffic: V6, ..BARE },
    Case { name: "IPv6", traffic: V6, sources: ENDLESS, ..BARE },
    Case {
        name: "narrow rule, denied part",
        rules: |bytecode| narrow(bytecode, &[128], Policy::DENIED),
        traffic: PART,
        drops: Drops::All,
        ..BARE
    },
    Case {
        name: "narrow rule, part over its limit",
        rules: |bytecode| narrow(bytecode, &[128], hourly()),
        traffic: PART,
        drops: Drops::All,
        ..BARE
    },
    Case {
        name: "narrow rule, part within its limit",
        rules: |bytecode| narrow(bytecode, &[128], per_second(90_000_000, 90_000_000)),
        traffic: PART,
        ..BARE
    },
    Case {
        name: "narrow rule, another address of the same /64",
        rules: |bytecode| narrow(bytecode, &[128], Policy::DENIED),
        traffic: BESIDE,
        ..BARE
    },
    Case {
        name: "narrow rule, endless addresses of the same /64",
        rules: |bytecode| narrow(bytecode, &[128], Policy::DENIED),
        traffic: BESIDE,
        sources: ENDLESS,
        ..BARE
    },
    Case {
        name: "narrow rule, another /64 of the same /32",
        rules: |bytecode| narrow(bytecode, &[128], Policy::DENIED),
        traffic: V6,
        ..BARE
    },
    Case {
        name: "narrow rule, endless /64 of the same /32",
        rules: |bytecode| narrow(bytecode, &[128], Policy::DENIED),
        traffic: V6,
        sources: ENDLESS,
        ..BARE
    },
    Case {
        name: "wide rule, endless /64 of the same /32",
        rules: |bytecode| {
            bytecode.set("2001:db8:ffff::/48", Policy::DENIED);
            bytecode.set("default", never_reached());
        },
        traffic: V6,
        sources: ENDLESS,
        ..BARE
    },
    Case {
        name: "narrow rules of four lengths and four services, denied part",
        settings: services,
        rules: |bytecode| {
            four_services(bytecode);
            narrow(bytecode, FOUR, Policy::DENIED);
        },
        traffic: PART_SYN,
        drops: Drops::All,
        ..BARE
    },
    Case {
        name: "narrow rules of four lengths and four services, part within its limit",
        settings: services,
        rules: |bytecode| {
            four_services(bytecode);
            narrow(bytecode, FOUR, per_second(90_000_000, 90_000_000));
        },
        traffic: PART_SYN,
        ..BARE
    },
    Case {
        name: "narrow rules of four lengths and four services, endless addresses of the same /64",
        settings: services,
        rules: |bytecode| {
            four_services(bytecode);
            narrow(bytecode, &[128, 127, 126, 125], Policy::DENIED);
        },
        traffic: BESIDE_SYN,
        sources: ENDLESS,
        ..BARE
    },
    Case {
        name: "narrow rules of five lengths, denied part",
        rules: |bytecode| narrow(bytecode, FIVE, Policy::DENIED),
        traffic: PART,
        drops: Drops::All,
        ..BARE
    },
    Case {
        name: "narrow rules of five lengths and four services, endless addresses of the same /64",
        settings: services,
        rules: |bytecode| {
            four_services(bytecode);
            narrow(bytecode, FIVE, Policy::DENIED);
        },
        traffic: BESIDE_SYN,
        sources: ENDLESS,
        drops: Drops::All,
    },
    Case {
        name: "narrow rules of five lengths and four services, denied part",
        settings: services,
        rules: |bytecode| {
            four_services(bytecode);
            narrow(bytecode, FIVE, Policy::DENIED);
        },
        traffic: PART_SYN,
        drops: Drops::All,
        ..BARE
    },
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
