//! Parents: wider limits that several sources share.

use std::{
    cell::RefCell,
    cmp::Reverse,
    collections::{HashMap, HashSet},
    sync::Barrier,
    thread,
};

use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use ratelimit::dataplane::{
    program::loader::Settings,
    rules::{
        policies,
        spec::{ParentLimit, RuleSpec, Scope},
    },
};
use ratelimit_common::{
    cells::cell,
    identity::{
        class::ANY,
        parent::{IN_PREFIX, Parent},
        source::{IPV4, IPV6, Source},
    },
    limits::{
        limit::{Limit, Rate, SECOND},
        policy::{COARSE, Policy},
    },
    maps::{control::FEATURE_FRONT, levels},
    meters::{
        gcra::{Answer, units},
        meter::Meter,
        state,
    },
    reason::Reason,
};
use ratelimit_tests::{Bytecode, Frame, Verdict, debts, per_second, tokens::Tokens};

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

/// Generates the limit of a source or parent: packets, bytes or both.
fn policy() -> impl Strategy<Value = Policy> {
    let rate = (1u64..100).prop_map(|amount| Rate { amount, period: SECOND });
    let bytes = (1_000u64..100_000).prop_map(|amount| Rate { amount, period: SECOND });
    (prop::option::weighted(0.7, rate), prop::option::weighted(0.5, bytes), 1u64..20)
        .prop_filter_map("an invalid limit", |(packets, bytes, burst)| {
            Limit { packets, bytes, burst: Some(burst), ..Limit::default() }.policy().ok()
        })
}

/// Model of all buckets by key. It asks all limits before it charges any.
#[derive(Default)]
struct Model {
    states: HashMap<Source, [u64; 2]>,
}

impl Model {
    fn decide(&mut self, levels: &[(Source, Policy)], now: u64, length: u32) -> Reason {
        let ask = |meter: &Meter, state: u64, amount: u32| match meter.is_on() {
            true => meter.ask(state, units(now), meter.cost_of(amount)),
            false => Answer::Admit(state),
        };
        let mut next = Vec::new();
        for (level, (key, policy)) in levels.iter().enumerate() {
            let [packets, bytes] = *self.states.entry(*key).or_insert([units(now); 2]);
            let refused = |reason| if level == 0 { reason } else { Reason::OverParent };
            let Answer::Admit(packets) = ask(&policy.packets, packets, 1) else { return refused(Reason::OverPackets) };
            let Answer::Admit(bytes) = ask(&policy.second, bytes, length) else { return refused(Reason::OverBytes) };
            next.push((*key, [packets, bytes]));
        }
        self.states.extend(next);
        Reason::WithinLimit
    }
}

/// Returns the slot of a policy, in any lane.
fn slot_of(bytecode: &Bytecode, wanted: &Policy) -> u16 {
    (0..).find(|slot| bytecode.tables.policies.get(u32::from(*slot)).unwrap().in_lane(0) == *wanted).unwrap()
}

/// Returns whether the sources of a case, or its near parents, share levels. Then the program refuses more than the
/// model.
fn share_levels(bytecode: &Bytecode, base: u32, near: u16) -> bool {
    let control = bytecode.tables.control().unwrap();
    let cells = bytecode.tables.front.open().unwrap().len();
    let cell = |source: &Source| cell::index(source.hash(&control.seed), cells);
    let lane = |key: &Source| levels::index(1, key.hash(&control.seed));
    let hosts = (0..2).flat_map(|net| (1..4).map(move |host| net << 8 | host));
    let sources: Vec<_> = hosts.map(|host| Source::v4((base | host).to_be_bytes())).collect();
    let parent = Parent { policy: near, scope: IN_PREFIX, prefix: 24 };
    let parents: HashSet<_> = sources.iter().map(|source| source.parent(parent, 0)).collect();
    let has_cells = control.features & FEATURE_FRONT != 0;
    has_cells
        && (sources.iter().map(cell).collect::<HashSet<_>>().len() < sources.len()
            || parents.iter().map(lane).collect::<HashSet<_>>().len() < parents.len())
}

fn every_verdict_matches_the_model_and_refused_packets_are_not_charged(front: Front) {
    let loaded = RefCell::new(load(front));
    let (network, verdicts) = (RefCell::new(0u32), RefCell::new([0u64; 3]));
    let arrivals = prop::collection::vec((0u64..SECOND / 50, 0u32..2, 1u32..4, 60usize..1_514), 1..80);
    let mut runner = TestRunner::new(Config { cases: 400, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&(policy(), policy(), policy(), arrivals), |(own, near, far, arrivals)| {
        let mut bytecode = loaded.borrow_mut();
        *network.borrow_mut() += 1;
        // A new network has no debt. The far parent covers several near parents.
        let base = *network.borrow() << 10;
        let parents = vec![prefix(IPV4, 24, near), prefix(IPV4, 22, far)];
        bytecode.set("default", RuleSpec { policy: own, parents });
        let (near_id, far_id) = (slot_of(&bytecode, &near), slot_of(&bytecode, &far));
        if share_levels(&bytecode, base, near_id) {
            return Ok(());
        }
        let mut model = Model::default();
        let mut now = u64::from(*network.borrow()) * 1_000 * SECOND;
        for (gap, net, host, length) in arrivals {
            now += gap;
            bytecode.set_time(now);
            let address = base | net << 8 | host;
            let source = Source::v4(address.to_be_bytes());
            let parent = |prefix, policy| source.parent(Parent { policy, scope: IN_PREFIX, prefix }, 0);
            let levels = [(source, own), (parent(24, near_id), near), (parent(22, far_id), far)];
            let frame = Frame::udp(address.to_be_bytes(), 9).length(length).bytes();
            let expected = model.decide(&levels, now, frame.len() as u32);
            let verdict = bytecode.send(&frame);
            prop_assert_eq!(verdict == Verdict::Pass, expected.passes(), "{:?} expected", expected);
            let index = match expected {
                Reason::WithinLimit => 0,
                Reason::OverParent => 1,
                _ => 2,
            };
            verdicts.borrow_mut()[index] += 1;
        }
        // All debts match the model exactly.
        for (key, [packets, second]) in &model.states {
            let slot = [near_id, far_id].into_iter().find(|slot| key.parent == u32::from(*slot) + 1);
            let policy = slot.map_or(own, |slot| bytecode.tables.policies.get(u32::from(slot)).unwrap());
            let debts = debts(&bytecode, *key, &policy);
            if policy.packets.is_on() {
                prop_assert_eq!(debts[0], state::debt(*packets, units(now)), "{:?}", key);
            }
            if policy.second.is_on() {
                prop_assert_eq!(debts[1], state::debt(*second, units(now)), "{:?}", key);
            }
        }
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    let [passed, over_parent, over_own] = verdicts.into_inner();
    println!("{passed} passed, {over_parent} refused by a parent, {over_own} by the limit of the source");
    assert!(passed.min(over_parent).min(over_own) > 100, "too few verdicts were close");
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
    let policy = bytecode.tables.policies.get(u32::from(slot)).unwrap();
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

/// The parent has two policies below it: a coarse one, and one with a short burst, which reads the precise clock.
fn a_parent_on_both_clocks_admits_at_most_its_limit_and_nearly_all_of_it(front: Front) {
    const TICK: u64 = 4_000_000;
    const RATE: u64 = 500;
    const BURST: u64 = 300;
    let settings = Settings { parents: true, lanes: true, injected_tick: TICK, ..front.settings() };
    let mut bytecode = Bytecode::with(settings);
    bytecode.set_time(SECOND + TICK / 3);
    let parents = vec![all(per_second(RATE, BURST))];
    bytecode.set("default", RuleSpec { policy: per_second(10_000, 10_000), parents: parents.clone() });
    bytecode.set("10.2.0.0/16", RuleSpec { policy: per_second(10_000, 10), parents });
    let id = bytecode.tables.default_policy(ANY).unwrap();
    let coarse = bytecode.tables.policies.get(id).unwrap();
    let parent = bytecode.tables.policies.get(u32::from(coarse.parents(IPV4)[0].policy)).unwrap();
    assert_eq!((coarse.flags & COARSE, parent.flags & COARSE), (COARSE, COARSE));

    let frames = [[10, 1, 0, 1], [10, 2, 0, 1]].map(|from| Frame::udp(from, 9).bytes());
    let begin = bytecode.clock().advance(0);
    let (mut clock, mut now, mut passed) = (bytecode.clock(), begin, 0);
    let mut bound = Tokens::full(Rate { amount: RATE, period: SECOND }, BURST + 1, begin);
    for number in 0..20_000_u64 {
        // Mostly a flood, and now and then a pause in which the bucket fills.
        let pause = if number % 4_000 == 0 { SECOND / 2 } else { 0 };
        now = clock.advance(pause + number * 7_919 % (TICK / 8));
        bound.advance(now);
        if bytecode.send(&frames[(number / 3 % 2) as usize]) == Verdict::Pass {
            passed += 1;
            assert!(bound.take(1), "packet {number} is beyond the bound");
        }
    }
    let least = RATE * (now - begin) / SECOND * 98 / 100;
    assert!(passed >= least, "only {passed} of {least} passed");
}

/// A coarse policy and a precise one spend the burst of their parent just before a tick.
fn a_parent_admits_its_burst_once_whatever_the_clocks_of_its_sources(front: Front) {
    const TICK: u64 = 4_000_000;
    const RATE: u64 = 50_000;
    let settings = Settings { parents: true, lanes: true, injected_tick: TICK, ..front.settings() };
    let mut bytecode = Bytecode::with(settings);
    bytecode.set_time(SECOND / TICK * TICK + TICK - 1);
    let parents = vec![all(per_second(RATE, RATE))];
    bytecode.set("default", RuleSpec { policy: per_second(1_000_000, 1_000_000), parents: parents.clone() });
    bytecode.set("10.2.0.0/16", RuleSpec { policy: per_second(100_000_000, 90_000), parents });
    let [coarse, precise] = [[10, 1, 0, 1], [10, 2, 0, 1]].map(|from| Frame::udp(from, 9).bytes());
    // A bucket of the parent, which owes nothing by the time of the test.
    bytecode.repeat(&coarse, 2 * RATE as u32);
    let mut clock = bytecode.clock();
    clock.advance(10 * SECOND);
    let before = bytecode.count(Reason::WithinLimit);
    // The first two fill the share of the cell, by either clock, and the others the bucket.
    let of_a_tick = RATE * TICK / SECOND;
    for (frame, packets) in [(&coarse, RATE / 2), (&precise, of_a_tick), (&coarse, RATE), (&precise, RATE)] {
        bytecode.repeat(frame, packets as u32);
    }
    // A burst by ticks is shorter by a tick, less one packet.
    assert_eq!(bytecode.count(Reason::WithinLimit) - before, RATE - of_a_tick + 1);
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
    every_verdict_matches_the_model_and_refused_packets_are_not_charged,
    with_a_stopped_clock_exactly_the_parent_burst_passes,
    a_parent_is_not_charged_for_packets_that_the_next_parent_refuses,
    a_parent_on_both_clocks_admits_at_most_its_limit_and_nearly_all_of_it,
    a_parent_admits_its_burst_once_whatever_the_clocks_of_its_sources,
    a_rule_with_only_a_parent_is_read_as_it_was_written,
);
