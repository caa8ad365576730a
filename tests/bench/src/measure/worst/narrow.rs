//! Rules for parts of IPv6 sources.

use ratelimit_common::limits::policy::Policy;
use ratelimit_tests::per_second;

use super::{
    case::{Case, Drops},
    rules::{BARE, ENDLESS, FIVE, FOUR, four_services, hourly, narrow, services},
    traffic::{BESIDE, BESIDE_SYN, PART, PART_SYN, V6},
};
use crate::state::never_reached;

/// The rows.
pub(super) const ROWS: [Case; 14] = [
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
];
