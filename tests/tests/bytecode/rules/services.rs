//! Service rules: which bucket a packet is charged to, and by which rule.

use std::time::Duration;

use aya::maps::lpm_trie::Key;
use ratelimit_common::{
    identity::source::Source,
    limits::{
        limit::{DAY, Limit, Rate, SECOND},
        policy::{DENIED_ID, Policy},
    },
    maps::names,
    reason::Reason,
    rules::rule::{COMMAND, Covered, Rule},
};
use ratelimit_dataplane::{
    Error,
    error::ServicesError,
    program::loader::Settings,
    rules::{
        batch::{self, Change},
        list,
        services::Services,
        target::Target,
    },
};
use ratelimit_tests::{Bytecode, Frame, Verdict};

use crate::front::{Front, with_and_without_cells};

fn load(front: Front) -> Bytecode {
    let mut bytecode = Bytecode::with(Settings { services: true, ..front.settings() });
    bytecode.set_time(SECOND);
    bytecode
}

/// Returns a limit of this number of packets per day.
fn only(packets: u64) -> Policy {
    let rate = Rate { amount: 1, period: DAY };
    Limit { packets: Some(rate), burst: Some(packets), ..Limit::default() }.policy().unwrap()
}

const SOURCE: [u8; 4] = [10, 1, 2, 3];

fn one_service_cannot_use_up_the_limit_of_another(front: Front) {
    let mut bytecode = load(front);
    bytecode.set("default udp/53", only(3));
    bytecode.set("default tcp-syn", only(2));
    bytecode.set("default icmp", only(1));
    bytecode.set("default", only(5));
    let passed = |frame: Frame| (0..10).filter(|_| bytecode.send(&frame.bytes()) == Verdict::Pass).count();
    assert_eq!(passed(Frame::udp(SOURCE, 53)), 3);
    assert_eq!(passed(Frame::syn(SOURCE, 443)), 2);
    assert_eq!(passed(Frame::echo(SOURCE)), 1);
    // All other packets share the general limit.
    assert_eq!(passed(Frame::ack(SOURCE, 443)), 5);
    assert_eq!(passed(Frame::udp(SOURCE, 9)), 0);
    assert_eq!(passed(Frame::udp([10, 1, 2, 4], 9)), 5, "another source");
}

fn packets_of_a_service_without_a_rule_share_the_general_limit(front: Front) {
    let mut bytecode = load(front);
    bytecode.set("192.0.2.0/24 udp/53", only(1));
    bytecode.set("default", only(3));
    let passed = |frame: Frame| (0..10).filter(|_| bytecode.send(&frame.bytes()) == Verdict::Pass).count();
    assert_eq!(passed(Frame::udp(SOURCE, 53)), 3);
    assert_eq!(passed(Frame::udp(SOURCE, 9)), 0);
    assert_eq!(passed(Frame::udp([192, 0, 2, 1], 53)), 1);
    assert_eq!(passed(Frame::udp([192, 0, 2, 1], 9)), 3);
}

fn a_later_fragment_belongs_to_no_service(front: Front) {
    let mut bytecode = load(front);
    bytecode.set("default udp", only(1));
    bytecode.set("default", only(2));
    let mut later = Frame::udp(SOURCE, 53).bytes();
    later[20..22].copy_from_slice(&[0, 1]);
    let reasons = [0; 3].map(|_| bytecode.reason(&later));
    assert_eq!(reasons, [Reason::WithinLimit, Reason::WithinLimit, Reason::OverPackets]);
    // The first fragment has ports.
    let mut first = later;
    first[20..22].copy_from_slice(&[0x20, 0]);
    assert_eq!([0; 2].map(|_| bytecode.reason(&first)), [Reason::WithinLimit, Reason::OverPackets]);
}

fn deleting_the_last_rule_of_a_service_clears_its_debt(front: Front) {
    let mut bytecode = load(front);
    bytecode.set("default udp/53", only(1));
    bytecode.set("10.0.0.0/8 udp/53", only(1));
    let dns = Frame::udp(SOURCE, 53).bytes();
    assert_eq!([0; 2].map(|_| bytecode.reason(&dns)), [Reason::WithinLimit, Reason::OverPackets]);
    bytecode.delete("10.0.0.0/8 udp/53");
    assert_eq!(bytecode.reason(&dns), Reason::OverPackets, "the default rule uses the same bucket");
    bytecode.delete("default udp/53");
    assert!(Services::read(&bytecode.tables).unwrap().is_empty());
    assert_eq!(bytecode.reason(&dns), Reason::WithinLimit);
    // Another service reuses the class and has no debt.
    bytecode.set("default udp/9", only(1));
    assert_eq!(bytecode.reason(&Frame::udp(SOURCE, 9).bytes()), Reason::WithinLimit);
}

fn more_services_than_classes_are_refused_and_unused_classes_are_reused(front: Front) {
    let mut bytecode = load(front);
    for port in 1..=255 {
        bytecode.set(&format!("10.0.0.0/8 udp/{port}"), Policy::DENIED);
    }
    let target: Target = "10.0.0.0/8 udp/256".parse().unwrap();
    let refused = batch::set(&mut bytecode.tables, target, &Policy::DENIED.into(), None, COMMAND);
    assert!(matches!(refused, Err(Error::Services(ServicesError::TooMany(255)))), "{refused:?}");
    assert_eq!(bytecode.reason(&Frame::udp(SOURCE, 256).bytes()), Reason::WithinLimit);
    bytecode.delete("10.0.0.0/8 udp/7");
    bytecode.set("10.0.0.0/8 udp/256", Policy::DENIED);
    assert_eq!(bytecode.reason(&Frame::udp(SOURCE, 256).bytes()), Reason::Denied);
    assert_eq!(bytecode.reason(&Frame::udp(SOURCE, 7).bytes()), Reason::WithinLimit);
}

/// Part of an IPv6 prefix is a separate source for services with a rule for it, and for no others.
fn a_service_rule_for_part_of_an_ipv6_prefix_covers_only_that_service(front: Front) {
    let mut bytecode = load(front);
    bytecode.set("default", only(2));
    bytecode.set("2001:db8::bad udp/53", Policy::DENIED);
    let from = |host: u16| std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host);
    assert_eq!(bytecode.reason(&Frame::udp(from(0xbad), 53).bytes()), Reason::Denied);
    assert_eq!(bytecode.reason(&Frame::udp(from(0xbad), 9).bytes()), Reason::WithinLimit);
    assert_eq!(bytecode.reason(&Frame::udp(from(1), 53).bytes()), Reason::WithinLimit);
    assert_eq!(bytecode.reason(&Frame::udp(from(0xbad), 9).bytes()), Reason::OverPackets);
}

fn the_ports_of_a_range_share_one_bucket(front: Front) {
    let mut bytecode = load(front);
    bytecode.set("default tcp/8000-8003", only(3));
    bytecode.set("default tcp", only(2));
    let passed = |ports: std::ops::RangeInclusive<u16>| {
        let frames = ports.cycle().take(8).map(|port| Frame::ack(SOURCE, port).bytes());
        frames.filter(|frame| bytecode.send(frame) == Verdict::Pass).count()
    };
    assert_eq!(passed(8000..=8003), 3);
    // Both neighbours belong to the protocol.
    assert_eq!(passed(7999..=7999) + passed(8004..=8004), 2);
    let services = Services::read(&bytecode.tables).unwrap();
    assert_eq!(services.iter().count(), 2, "a range is one service");
    bytecode.delete("default tcp/8000-8003");
    assert_eq!(bytecode.reason(&Frame::ack(SOURCE, 8001).bytes()), Reason::OverPackets, "the rule of tcp decides");
}

fn services_with_a_common_port_are_refused_unless_one_replaces_the_other(front: Front) {
    let mut bytecode = load(front);
    bytecode.set("10.0.0.0/8 tcp/8000-8099", Policy::DENIED);
    let reason = |bytecode: &Bytecode, port| bytecode.reason(&Frame::ack(SOURCE, port).bytes());
    let (old, new): (Target, Target) =
        ("10.0.0.0/8 tcp/8000-8099".parse().unwrap(), "10.0.0.0/8 tcp/8050-8149".parse().unwrap());
    let refused = batch::set(&mut bytecode.tables, new, &Policy::DENIED.into(), None, COMMAND).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "tcp/8050-8149 overlaps tcp/8000-8099, which has rules or a cost, and a port belongs to one service only: delete the rules and the cost of tcp/8000-8099 first, or choose other ports"
    );
    assert_eq!(
        [8000, 8099, 8100].map(|port| reason(&bytecode, port)),
        [Reason::Denied, Reason::Denied, Reason::WithinLimit]
    );
    bytecode.set("10.0.0.0/8 udp/8050", Policy::DENIED);
    let mut change = Change::set(new, &Policy::DENIED.into(), None, COMMAND);
    change.deleted = vec![old];
    batch::apply(None, &mut bytecode.tables, &change, &mut |_| {}, &|_| Ok(())).unwrap();
    assert_eq!(
        [8049, 8050, 8149].map(|port| reason(&bytecode, port)),
        [Reason::WithinLimit, Reason::Denied, Reason::Denied]
    );
    // Rules that have expired are in the way of no service.
    let ended = Change::set(old, &Policy::DENIED.into(), Some(Duration::ZERO), COMMAND);
    bytecode.delete("10.0.0.0/8 tcp/8050-8149");
    batch::apply(None, &mut bytecode.tables, &ended, &mut |_| {}, &|_| Ok(())).unwrap();
    bytecode.set("10.0.0.0/8 tcp/8000", Policy::DENIED);
    assert_eq!([8000, 8001].map(|port| reason(&bytecode, port)), [Reason::Denied, Reason::WithinLimit]);
}

/// Expired rules fill the table. Setting the first rule of a service removes them.
fn a_new_service_keeps_its_class_while_expired_rules_are_removed(front: Front) {
    let mut bytecode = load(front);
    let ended = Rule { policy: DENIED_ID, prefix: 24, origin: COMMAND, covered: Covered::NONE, expires: 1 };
    for number in 0..names::PREFIX_RULES_MAX {
        let (bits, data) = Source::v4((number << 8).to_be_bytes()).prefix_key(24);
        bytecode.tables.prefix_rules.open_mut().unwrap().insert(&Key::new(bits, data), ended, 0).unwrap();
    }
    bytecode.set("10.0.0.0/8 udp/53", Policy::DENIED);
    assert_eq!(list::list(&bytecode.tables).unwrap().len(), 1);
    bytecode.set("default udp/99", only(5));
    let reasons = [53, 99].map(|port| bytecode.reason(&Frame::udp(SOURCE, port).bytes()));
    assert_eq!(reasons, [Reason::Denied, Reason::WithinLimit]);
}

/// Even with `pass_malformed`, such a fragment could hide its ports until the host reassembles it.
fn a_fragment_without_its_ports_is_dropped(front: Front) {
    let settings = Settings { services: true, pass_malformed: true, ..front.settings() };
    let mut bytecode = Bytecode::with(settings);
    bytecode.set_time(SECOND);
    bytecode.set("0.0.0.0/0 tcp/22", Policy::DENIED);
    let mut first = Frame::syn(SOURCE, 22).bytes();
    first[16..18].copy_from_slice(&28u16.to_be_bytes());
    first[20..22].copy_from_slice(&[0x20, 0]);
    assert_eq!(bytecode.reason(&first), Reason::Truncated);
}

with_and_without_cells!(
    the_ports_of_a_range_share_one_bucket,
    services_with_a_common_port_are_refused_unless_one_replaces_the_other,
    one_service_cannot_use_up_the_limit_of_another,
    packets_of_a_service_without_a_rule_share_the_general_limit,
    a_later_fragment_belongs_to_no_service,
    deleting_the_last_rule_of_a_service_clears_its_debt,
    more_services_than_classes_are_refused_and_unused_classes_are_reused,
    a_service_rule_for_part_of_an_ipv6_prefix_covers_only_that_service,
    a_new_service_keeps_its_class_while_expired_rules_are_removed,
    a_fragment_without_its_ports_is_dropped,
);
