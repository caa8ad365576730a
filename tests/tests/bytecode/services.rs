//! Limits for a class of packets: which bucket a packet is billed to, and by which rule.

use std::{cell::RefCell, collections::HashMap};

use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use ratelimit::dataplane::{
    Error,
    object::Settings,
    rules,
    services::Services,
    target::{Sources, Target},
    terms::Terms,
};
use ratelimit_common::{
    limit::{DAY, Limit, Rate, SECOND},
    policy::{ALLOW, DENY, Policy},
    reason::Reason,
    rule::COMMAND,
    service::{Service, Transport},
};
use ratelimit_tests::{Bytecode, Frame, Verdict};

fn load() -> Bytecode {
    let mut bytecode = Bytecode::with(Settings { services: true, ..Settings::default() });
    bytecode.set_time(SECOND);
    bytecode
}

/// As many packets, and no more for a day.
fn only(packets: u64) -> Policy {
    let rate = Rate { amount: 1, period: DAY };
    Limit { packets: Some(rate), burst: Some(packets), ..Limit::default() }.policy().unwrap()
}

const SOURCE: [u8; 4] = [10, 1, 2, 3];

#[test]
fn one_service_cannot_starve_another() {
    let mut bytecode = load();
    bytecode.set("default udp/53", only(3));
    bytecode.set("default tcp-syn", only(2));
    bytecode.set("default icmp", only(1));
    bytecode.set("default", only(5));
    let passed = |frame: Frame| (0..10).filter(|_| bytecode.send(&frame.bytes()) == Verdict::Pass).count();
    assert_eq!(passed(Frame::udp(SOURCE, 53)), 3);
    assert_eq!(passed(Frame::syn(SOURCE, 443)), 2);
    assert_eq!(passed(Frame::echo(SOURCE)), 1);
    // Everything else shares what is left to any.
    assert_eq!(passed(Frame::ack(SOURCE, 443)), 5);
    assert_eq!(passed(Frame::udp(SOURCE, 9)), 0);
    assert_eq!(passed(Frame::udp([10, 1, 2, 4], 9)), 5, "another source");
}

#[test]
fn without_a_rule_for_it_a_service_pays_with_all_others() {
    let mut bytecode = load();
    bytecode.set("192.0.2.0/24 udp/53", only(1));
    bytecode.set("default", only(3));
    let passed = |frame: Frame| (0..10).filter(|_| bytecode.send(&frame.bytes()) == Verdict::Pass).count();
    assert_eq!(passed(Frame::udp(SOURCE, 53)), 3);
    assert_eq!(passed(Frame::udp(SOURCE, 9)), 0);
    assert_eq!(passed(Frame::udp([192, 0, 2, 1], 53)), 1);
    assert_eq!(passed(Frame::udp([192, 0, 2, 1], 9)), 3);
}

#[test]
fn a_later_fragment_is_in_no_service() {
    let mut bytecode = load();
    bytecode.set("default udp", only(1));
    bytecode.set("default", only(2));
    let mut later = Frame::udp(SOURCE, 53).bytes();
    later[20..22].copy_from_slice(&[0, 1]);
    let reasons = [0; 3].map(|_| bytecode.reason(&later));
    assert_eq!(reasons, [Reason::WithinLimit, Reason::WithinLimit, Reason::OverPackets]);
    // The first one has its ports.
    let mut first = later;
    first[20..22].copy_from_slice(&[0x20, 0]);
    assert_eq!([0; 2].map(|_| bytecode.reason(&first)), [Reason::WithinLimit, Reason::OverPackets]);
}

#[test]
fn what_a_service_owed_is_forgotten_with_its_last_rule() {
    let mut bytecode = load();
    bytecode.set("default udp/53", only(1));
    bytecode.set("10.0.0.0/8 udp/53", only(1));
    let dns = Frame::udp(SOURCE, 53).bytes();
    assert_eq!([0; 2].map(|_| bytecode.reason(&dns)), [Reason::WithinLimit, Reason::OverPackets]);
    bytecode.delete("10.0.0.0/8 udp/53");
    assert_eq!(bytecode.reason(&dns), Reason::OverPackets, "the default is another rule for the same bucket");
    bytecode.delete("default udp/53");
    assert!(Services::read(&bytecode.tables).unwrap().is_empty());
    assert_eq!(bytecode.reason(&dns), Reason::WithinLimit);
    // The class goes to another service, which owes nothing.
    bytecode.set("default udp/9", only(1));
    assert_eq!(bytecode.reason(&Frame::udp(SOURCE, 9).bytes()), Reason::WithinLimit);
}

#[test]
fn more_services_than_classes_are_refused_and_those_without_rules_are_used_again() {
    let mut bytecode = load();
    for port in 1..=255 {
        bytecode.set(&format!("10.0.0.0/8 udp/{port}"), Policy::DENIED);
    }
    let target: Target = "10.0.0.0/8 udp/256".parse().unwrap();
    let refused = rules::set(&mut bytecode.tables, target, &Policy::DENIED.into(), None, COMMAND);
    assert!(matches!(refused, Err(Error::TooManyServices(255))), "{refused:?}");
    assert_eq!(bytecode.reason(&Frame::udp(SOURCE, 256).bytes()), Reason::WithinLimit);
    bytecode.delete("10.0.0.0/8 udp/7");
    bytecode.set("10.0.0.0/8 udp/256", Policy::DENIED);
    assert_eq!(bytecode.reason(&Frame::udp(SOURCE, 256).bytes()), Reason::Denied);
    assert_eq!(bytecode.reason(&Frame::udp(SOURCE, 7).bytes()), Reason::WithinLimit);
}

/// A part of an IPv6 source is a source of its own for the services that have a rule for it, and for no others.
#[test]
fn a_rule_for_a_service_of_a_part_of_an_ipv6_source() {
    let mut bytecode = load();
    bytecode.set("default", only(2));
    bytecode.set("2001:db8::bad udp/53", Policy::DENIED);
    let from = |host: u16| std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host);
    assert_eq!(bytecode.reason(&Frame::udp(from(0xbad), 53).bytes()), Reason::Denied);
    assert_eq!(bytecode.reason(&Frame::udp(from(0xbad), 9).bytes()), Reason::WithinLimit);
    assert_eq!(bytecode.reason(&Frame::udp(from(1), 53).bytes()), Reason::WithinLimit);
    assert_eq!(bytecode.reason(&Frame::udp(from(0xbad), 9).bytes()), Reason::OverPackets);
}

/// A packet from an address, and its services, the narrowest first.
type Packet = (fn([u8; 4]) -> Frame, &'static [Service]);

/// The packets of the property below.
const PACKETS: [Packet; 6] = [
    (|from| Frame::udp(from, 53), &[Service::Port(Transport::Udp, 53), Service::Protocol(17)]),
    (|from| Frame::udp(from, 9), &[Service::Protocol(17)]),
    (|from| Frame::syn(from, 443), &[Service::TcpSyn, Service::Port(Transport::Tcp, 443), Service::Protocol(6)]),
    (|from| Frame::syn(from, 80), &[Service::TcpSyn, Service::Protocol(6)]),
    (|from| Frame::ack(from, 443), &[Service::Port(Transport::Tcp, 443), Service::Protocol(6)]),
    (Frame::echo, &[Service::Icmp]),
];

const SERVICES: [Service; 7] = [
    Service::Any,
    Service::Port(Transport::Udp, 53),
    Service::Protocol(17),
    Service::TcpSyn,
    Service::Port(Transport::Tcp, 443),
    Service::Protocol(6),
    Service::Icmp,
];

/// Each inside the one before, and sources in all of them.
const SOURCES: [&str; 5] = ["default", "10.0.0.0/8", "10.1.0.0/16", "10.1.2.0/24", "10.1.2.3"];
const ADDRESSES: [[u8; 4]; 5] = [[11, 0, 0, 1], [10, 9, 9, 9], [10, 1, 9, 9], [10, 1, 2, 9], SOURCE];

type Rules = HashMap<(usize, usize), Policy>;

fn rules() -> impl Strategy<Value = Rules> {
    let policy = prop_oneof![Just(Policy::ALLOWED), Just(Policy::DENIED), (1u64..4).prop_map(only)];
    prop::collection::hash_map((0..SOURCES.len(), 0..SERVICES.len()), policy, 0..12).prop_map(|mut rules| {
        // A default is a limit.
        rules.retain(|(sources, _), policy| *sources > 0 || ![ALLOW, DENY].contains(&policy.kind));
        rules
    })
}

/// Which rule a packet has, by what the documentation says: the narrowest service that has a rule for the source, by its longest
/// prefix; but one that allows or denies, by a longer prefix, also where its service is wider.
fn expected(rules: &Rules, address: usize, services: &[Service]) -> Option<(Service, Policy)> {
    let mut best: Option<(usize, Service, Policy)> = None;
    for service in services.iter().chain(&[Service::Any]) {
        let number = SERVICES.iter().position(|of| of == service).unwrap();
        let longest = (0..=address).rev().find_map(|prefix| Some((prefix, *rules.get(&(prefix, number))?)));
        let Some((prefix, policy)) = longest else { continue };
        let is_verdict = [ALLOW, DENY].contains(&policy.kind);
        if best.is_none_or(|(longest, ..)| is_verdict && prefix > longest) {
            best = Some((prefix, *service, policy));
        }
    }
    best.map(|(_, service, policy)| (service, policy))
}

#[test]
fn every_packet_is_judged_by_the_rule_that_the_documentation_says() {
    let loaded = RefCell::new(load());
    let reasons = RefCell::new(HashMap::<&str, u32>::new());
    let packets = prop::collection::vec((0..ADDRESSES.len(), 0..PACKETS.len()), 1..40);
    let mut runner = TestRunner::new(Config { cases: 300, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&(rules(), packets), |(rules, packets)| {
        let mut bytecode = loaded.borrow_mut();
        for rule in rules::list(&bytecode.tables).unwrap() {
            rules::delete(&mut bytecode.tables, rule.target).unwrap();
        }
        prop_assert!(Services::read(&bytecode.tables).unwrap().is_empty());
        for (source, _) in bytecode.tables.tracked().unwrap() {
            bytecode.tables.buckets.remove(&source).unwrap();
        }
        for ((sources, service), policy) in &rules {
            let target = Target { sources: SOURCES[*sources].parse::<Sources>().unwrap(), service: SERVICES[*service] };
            rules::set(&mut bytecode.tables, target, &Terms::from(*policy), None, COMMAND).unwrap();
        }
        let mut passed: HashMap<([u8; 4], Service), u64> = HashMap::new();
        for (address, packet) in packets {
            let (frame, services) = PACKETS[packet];
            let expected = match expected(&rules, address, services) {
                None => Reason::WithinLimit,
                Some((_, Policy { kind: ALLOW, .. })) => Reason::Allowed,
                Some((_, Policy { kind: DENY, .. })) => Reason::Denied,
                Some((service, policy)) => {
                    let passed = passed.entry((ADDRESSES[address], service)).or_default();
                    *passed += 1;
                    if *passed <= policy.given.burst { Reason::WithinLimit } else { Reason::OverPackets }
                }
            };
            let reason = bytecode.reason(&frame(ADDRESSES[address]).bytes());
            prop_assert_eq!(reason, expected, "{:?} from {:?}", services, ADDRESSES[address]);
            *reasons.borrow_mut().entry(reason.name()).or_default() += 1;
        }
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    let reasons = reasons.into_inner();
    println!("{reasons:?}");
    assert!(
        reasons.len() == 4 && reasons.values().all(|count| *count > 100),
        "the rules hardly decide anything: {reasons:?}"
    );
}
