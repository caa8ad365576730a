//! Rule precedence and the charged bucket, compared with a model of the documentation.

use std::{cell::RefCell, collections::HashMap, net::IpAddr};

use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use ratelimit_common::{
    identity::service::{Service, Transport},
    limits::{
        limit::{DAY, Limit, Rate, SECOND},
        policy::{ALLOW, DENY, Policy},
    },
    reason::Reason,
    rules::rule::COMMAND,
};
use ratelimit_dataplane::{
    program::loader::Settings,
    rules::{batch, list, services::Services, spec::RuleSpec, target::Target},
};
use ratelimit_tests::{Bytecode, Frame};

use crate::front::{Front, with_and_without_cells};

/// Returns a limit of this number of packets per day.
fn only(packets: u64) -> Policy {
    let rate = Rate { amount: 1, period: DAY };
    Limit { packets: Some(rate), burst: Some(packets), ..Limit::default() }.policy().unwrap()
}

/// A packet from an address, and its services from narrow to wide.
type Packet = (fn(IpAddr) -> Frame, &'static [Service]);

const PACKETS: [Packet; 6] = [
    (|from| Frame::udp(from, 53), &[Service::port(Transport::Udp, 53), Service::Protocol(17)]),
    (|from| Frame::udp(from, 9), &[Service::Protocol(17)]),
    (|from| Frame::syn(from, 443), &[Service::TcpSyn, Service::port(Transport::Tcp, 443), Service::Protocol(6)]),
    (|from| Frame::syn(from, 80), &[Service::TcpSyn, Service::Protocol(6)]),
    (|from| Frame::ack(from, 443), &[Service::port(Transport::Tcp, 443), Service::Protocol(6)]),
    (|from| Frame::echo(from), &[Service::Icmp]),
];

const SERVICES: [Service; 7] = [
    Service::Any,
    Service::port(Transport::Udp, 53),
    Service::Protocol(17),
    Service::TcpSyn,
    Service::port(Transport::Tcp, 443),
    Service::Protocol(6),
    Service::Icmp,
];

/// Nested prefixes that start with the default. Each address is inside its prefix and outside the narrower ones.
struct World {
    prefixes: &'static [(&'static str, u8)],
    addresses: &'static [&'static str],
    /// Prefix length of a source without narrower rules.
    source: u8,
}

const V4: World = World {
    prefixes: &[("default", 0), ("10.0.0.0/8", 8), ("10.1.0.0/16", 16), ("10.1.2.0/24", 24), ("10.1.2.3", 32)],
    addresses: &["11.0.0.1", "10.9.9.9", "10.1.9.9", "10.1.2.9", "10.1.2.3"],
    source: 32,
};

const V6: World = World {
    prefixes: &[
        ("default", 0),
        ("2001:db8::/32", 32),
        ("2001:db8::/48", 48),
        ("2001:db8::/64", 64),
        ("2001:db8::/96", 96),
        ("2001:db8::1", 128),
    ],
    addresses: &["2001:db9::1", "2001:db8:1::1", "2001:db8:0:1::1", "2001:db8:0:0:1::1", "2001:db8::2", "2001:db8::1"],
    source: 64,
};

type Rules = HashMap<(usize, usize), Policy>;

fn rules(world: &World) -> impl Strategy<Value = Rules> + use<> {
    let policy = prop_oneof![Just(Policy::ALLOWED), Just(Policy::DENIED), (1u64..4).prop_map(only)];
    let places = (0..world.prefixes.len(), 0..SERVICES.len());
    prop::collection::hash_map(places, policy, 0..12).prop_map(|mut rules| {
        // A default rule is always a limit.
        rules.retain(|(prefix, _), policy| *prefix > 0 || ![ALLOW, DENY].contains(&policy.kind));
        rules
    })
}

/// Returns the rule of a service with the longest prefix that contains an address.
fn longest(rules: &Rules, address: usize, service: Service) -> Option<(usize, Policy)> {
    let number = SERVICES.iter().position(|of| *of == service).unwrap();
    (0..=address).rev().find_map(|prefix| Some((prefix, *rules.get(&(prefix, number))?)))
}

/// Returns the rule of the narrowest service, each with its longest prefix. A rule of a wider service replaces it if it
/// allows or denies and has a longer prefix.
fn expected(rules: &Rules, address: usize, services: &[Service]) -> Option<(Service, Policy)> {
    let mut best: Option<(usize, Service, Policy)> = None;
    for service in services.iter().chain(&[Service::Any]) {
        let Some((prefix, policy)) = longest(rules, address, *service) else { continue };
        let is_verdict = [ALLOW, DENY].contains(&policy.kind);
        if best.is_none_or(|(longest, ..)| is_verdict && prefix > longest) {
            best = Some((prefix, *service, policy));
        }
    }
    best.map(|(_, service, policy)| (service, policy))
}

/// Returns the charged source. Part of an IPv6 prefix is a separate source if a rule of the packet's services covers
/// it.
fn identity(world: &World, rules: &Rules, address: usize, services: &[Service]) -> u128 {
    let all = services.iter().chain(&[Service::Any]);
    let bits = all.filter_map(|service| Some(world.prefixes[longest(rules, address, *service)?.0].1)).max();
    let bits = bits.unwrap_or(0).max(world.source);
    match world.addresses[address].parse().unwrap() {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits() >> (128 - u32::from(bits)) << (128 - u32::from(bits)) | u128::from(bits),
    }
}

fn check(front: Front, world: &World) {
    let loaded = RefCell::new(Bytecode::with(Settings { services: true, ..front.settings() }));
    loaded.borrow_mut().set_time(SECOND);
    let reasons = RefCell::new(HashMap::<&str, u32>::new());
    let packets = prop::collection::vec((0..world.addresses.len(), 0..PACKETS.len()), 1..40);
    let mut runner = TestRunner::new(Config { cases: 50, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&(rules(world), packets), |(rules, packets)| {
        let mut bytecode = loaded.borrow_mut();
        for rule in list::list(&bytecode.tables).unwrap() {
            batch::delete(&mut bytecode.tables, rule.target).unwrap();
        }
        prop_assert!(Services::read(&bytecode.tables).unwrap().is_empty());
        bytecode.forget();
        for ((prefix, service), policy) in &rules {
            let target = Target { sources: world.prefixes[*prefix].0.parse().unwrap(), service: SERVICES[*service] };
            batch::set(&mut bytecode.tables, target, &RuleSpec::from(*policy), None, COMMAND).unwrap();
        }
        let mut passed: HashMap<(u128, Service), u64> = HashMap::new();
        for (address, packet) in packets {
            let (frame, services) = PACKETS[packet];
            let expected = match expected(&rules, address, services) {
                None => Reason::WithinLimit,
                Some((_, Policy { kind: ALLOW, .. })) => Reason::Allowed,
                Some((_, Policy { kind: DENY, .. })) => Reason::Denied,
                Some((service, policy)) => {
                    let source = identity(world, &rules, address, services);
                    let passed = passed.entry((source, service)).or_default();
                    *passed += 1;
                    if *passed <= policy.given.burst { Reason::WithinLimit } else { Reason::OverPackets }
                }
            };
            let from = world.addresses[address];
            let reason = bytecode.reason(&frame(from.parse().unwrap()).bytes());
            prop_assert_eq!(reason, expected, "{:?} from {}", services, from);
            *reasons.borrow_mut().entry(reason.name()).or_default() += 1;
        }
        Ok(())
    });
    assert_eq!(outcome.map_err(|error| error.to_string()), Ok(()));
    let reasons = reasons.into_inner();
    println!("{reasons:?}");
    let enough = reasons.len() == 4 && reasons.values().all(|count| *count > 3);
    assert!(enough, "too few packets per reason: {reasons:?}");
}

fn precedence_for_ipv4_matches_the_model(front: Front) {
    check(front, &V4);
}

fn precedence_for_ipv6_matches_the_model(front: Front) {
    check(front, &V6);
}

with_and_without_cells!(precedence_for_ipv4_matches_the_model, precedence_for_ipv6_matches_the_model,);
