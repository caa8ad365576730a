//! Parents: wider limits that several sources share.

mod clocks;
mod model;

use std::{cmp::Reverse, sync::Barrier, thread};

use ratelimit_common::{
    identity::{
        class::ANY,
        parent::{IN_PREFIX, Parent},
        source::{IPV4, IPV6, Source},
    },
    limits::{limit::SECOND, policy::Policy},
    reason::Reason,
};
use ratelimit_dataplane::{
    program::loader::Settings,
    rules::{
        policies,
        spec::{ParentLimit, RuleSpec, Scope},
    },
};
use ratelimit_tests::{Bytecode, Frame, Verdict, debts, per_second};

use crate::front::{Front, with_and_without_cells};

fn load(front: Front) -> Bytecode {
    let mut bytecode = Bytecode::with(Settings { parents: true, lanes: true, ..front.settings() });
    bytecode.set_time(SECOND);
    bytecode
}

fn prefix(family: u8, bits: u8, policy: Policy) -> ParentLimit {
    ParentLimit { scope: Scope::Prefix(family, Reverse(bits)), policy }
}

fn all(policy: Policy) -> ParentLimit {
    ParentLimit { scope: Scope::All, policy }
}

fn sources_of_a_prefix_share_the_parent_limit(front: Front) {
    let mut bytecode = load(front);
    let parents =
        vec![prefix(IPV4, 24, per_second(1, 10)), prefix(IPV6, 48, per_second(1, 20)), all(per_second(1, 25))];
    bytecode.set("default", RuleSpec { policy: per_second(1, 3), parents });
    let passed = |from: std::net::IpAddr| {
        (0..5).filter(|_| bytecode.send(&Frame::udp(from, 9).bytes()) == Verdict::Pass).count()
    };
    let v4: Vec<_> = (1..=5).map(|host| passed([10, 1, 2, host].into())).collect();
    assert_eq!(v4, [3, 3, 3, 1, 0], "one /24");
    assert_eq!(bytecode.reason(&Frame::udp([10, 1, 2, 9], 9).bytes()), Reason::OverParent);
    let v6: Vec<_> = (0..8).map(|net| passed([0x2001, 0xdb8, 0, net, 0, 0, 0, 1].into())).collect();
    assert_eq!(v6, [3, 3, 3, 3, 3, 0, 0, 0], "ten packets of the /24 and fifteen of this /48 reach the limit of all");
}

/// An IPv6 line with a /48 has 65,536 sources. A parent of the default limits it, and no IPv4 source.
fn an_ipv6_line_is_limited_as_a_whole(front: Front) {
    let mut bytecode = load(front);
    let parents = vec![prefix(IPV6, 48, per_second(5, 5))];
    bytecode.set("default", RuleSpec { policy: per_second(3, 3), parents });
    let passed = |from: std::net::IpAddr| {
        (0..5).filter(|_| bytecode.send(&Frame::udp(from, 9).bytes()) == Verdict::Pass).count()
    };
    let line = [1, 2, 3, 4].map(|net| passed([0x2001, 0xdb8, 7, net, 0, 0, 0, 1].into()));
    assert_eq!(line, [3, 2, 0, 0]);
    assert_eq!(passed([0x2001, 0xdb8, 8, 1, 0, 0, 0, 1].into()), 3, "another line");
    assert_eq!([1, 2, 3].map(|host| passed([10, 1, 2, host].into())), [3, 3, 3]);
}

fn a_rule_with_only_a_parent_limits_sources(front: Front) {
    let mut bytecode = load(front);
    bytecode.set("10.0.0.0/8", RuleSpec { policy: Policy::UNLIMITED, parents: vec![all(per_second(1, 4))] });
    let reasons = [1, 2, 3, 4, 5].map(|host| bytecode.reason(&Frame::udp([10, 0, 0, host], 9).bytes()));
    let within = Reason::WithinLimit;
    assert_eq!(reasons, [within, within, within, within, Reason::OverParent]);
    assert_eq!(bytecode.reason(&Frame::udp([11, 0, 0, 1], 9).bytes()), within, "no rule covers this source");
}

/// Returns the policy in a slot.
fn policy_in(bytecode: &Bytecode, slot: u16) -> Policy {
    bytecode.tables.policies.get(u32::from(slot)).unwrap()
}

/// Returns the slot of a policy, in any lane.
fn slot_of(bytecode: &Bytecode, wanted: &Policy) -> u16 {
    let is_wanted = |slot: &u16| policy_in(bytecode, *slot).in_lane(0) == *wanted;
    (0..).find(is_wanted).unwrap()
}

/// Sources on several CPUs compete for the last tokens of their parent. All buckets agree in the end.
fn with_a_stopped_clock_exactly_the_parent_burst_passes(front: Front) {
    const THREADS: u8 = 8;
    let mut bytecode = load(front);
    let burst = 50_000;
    let parents = vec![prefix(IPV4, 24, per_second(1, burst))];
    bytecode.set("default", RuleSpec { policy: per_second(1_000, 10_000_000), parents });
    let frames: Vec<_> = (0..THREADS).map(|host| Frame::udp([10, 0, 0, host], 9).bytes()).collect();
    let start = Barrier::new(frames.len());
    thread::scope(|scope| {
        for frame in &frames {
            let (bytecode, start) = (&bytecode, &start);
            scope.spawn(move || {
                start.wait();
                for _ in 0..10 {
                    bytecode.repeat(frame, 2_000);
                }
            });
        }
    });
    assert_eq!(bytecode.count(Reason::WithinLimit), burst);
    assert_eq!(bytecode.count(Reason::OverParent), u64::from(THREADS) * 20_000 - burst);
    // The sources paid for the packets that passed, and for no others.
    let cost = per_second(1_000, 10_000_000).packets.cost_of(1);
    let paid = (0..THREADS)
        .map(|host| debts(&bytecode, Source::v4([10, 0, 0, host]), &per_second(1_000, 10_000_000))[0] / cost);
    assert_eq!(paid.sum::<u64>(), burst);
}

/// The program returns the near parent's charge if another CPU takes the last token of the far parent meanwhile.
fn a_parent_is_not_charged_for_packets_that_the_next_parent_refuses(front: Front) {
    let mut bytecode = load(front);
    let (near, far) = (per_second(1_000, 1_000_000), per_second(1, 300));
    let parents = vec![prefix(IPV4, 24, near), prefix(IPV4, 16, far)];
    bytecode.set("default", RuleSpec { policy: Policy::UNLIMITED, parents });
    let (cost, slot) = (near.packets.cost_of(1), slot_of(&bytecode, &near));
    let policy = policy_in(&bytecode, slot);
    let start = Barrier::new(4);
    let mut full_rounds = 0;
    for round in 0..=u8::MAX {
        // Parents of different rounds may share levels.
        let key = Source::v4([10, round, 0, 0]).parent(Parent { policy: slot, scope: IN_PREFIX, prefix: 24 }, 0);
        let state =
            |bytecode: &Bytecode| (debts(bytecode, key, &policy)[0] / cost, bytecode.count(Reason::WithinLimit));
        let (owed, passed) = state(&bytecode);
        thread::scope(|scope| {
            for host in 0..4 {
                let (bytecode, start) = (&bytecode, &start);
                scope.spawn(move || {
                    start.wait();
                    bytecode.repeat(&Frame::udp([10, round, 0, host], 9).bytes(), 200);
                });
            }
        });
        let (owes, passes) = state(&bytecode);
        // A charge stays if another CPU has charged the parent since.
        let (charged, passed) = (owes - owed, passes - passed);
        assert!((passed..=passed + 4).contains(&charged), "round {round}: {charged} charged, {passed} passed");
        full_rounds += u32::from(passed == 300);
    }
    assert!(full_rounds > 240, "only {full_rounds} rounds spent the burst");
}

/// Commands compare what they read with what they have written.
fn a_rule_with_only_a_parent_is_read_as_it_was_written(front: Front) {
    let settings = Settings { parents: true, lanes: true, injected_tick: 4_000_000, ..front.settings() };
    let mut bytecode = Bytecode::with(settings);
    let spec = RuleSpec { policy: Policy::UNLIMITED, parents: vec![all(per_second(1_000, 1_000))] };
    bytecode.set("default", spec.clone());
    let id = bytecode.tables.default_policy(ANY).unwrap();
    assert_eq!(policies::spec(&bytecode.tables, id).unwrap(), spec);
}

with_and_without_cells!(
    sources_of_a_prefix_share_the_parent_limit,
    an_ipv6_line_is_limited_as_a_whole,
    a_rule_with_only_a_parent_limits_sources,
    with_a_stopped_clock_exactly_the_parent_burst_passes,
    a_parent_is_not_charged_for_packets_that_the_next_parent_refuses,
    a_rule_with_only_a_parent_is_read_as_it_was_written,
);
