//! Generated limits and arrivals against a model that keeps each bucket by its key.

use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
};

use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use ratelimit_common::{
    cells::cell,
    identity::{
        parent::{IN_PREFIX, Parent},
        source::{IPV4, Source},
    },
    limits::{
        limit::{Limit, Rate, SECOND},
        policy::Policy,
    },
    maps::{control::FEATURE_FRONT, levels},
    meters::{
        gcra::{Answer, units},
        meter::Meter,
        state,
    },
    reason::Reason,
};
use ratelimit_dataplane::rules::spec::RuleSpec;
use ratelimit_tests::{Bytecode, Frame, Verdict, debts};

use super::{load, policy_in, prefix, slot_of};
use crate::front::{Front, with_and_without_cells};

/// Generates the limit of a source or parent: packets, bytes or both. With a higher scale it admits more.
fn policy(scale: u64) -> impl Strategy<Value = Policy> {
    let rate = (1..100 * scale).prop_map(|amount| Rate { amount, period: SECOND });
    let bytes = (1_000..100_000 * scale).prop_map(|amount| Rate { amount, period: SECOND });
    (prop::option::weighted(0.7, rate), prop::option::weighted(0.5, bytes), 1..20 * scale)
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
    let arrivals = prop::collection::vec((0u64..SECOND / 50, 0u32..2, 1u32..4, 60usize..1_514), 1..160);
    let mut runner = TestRunner::new(Config { cases: 250, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&(policy(1), policy(2), policy(3), arrivals), |(own, near, far, arrivals)| {
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
            let policy = slot.map_or(own, |slot| policy_in(&bytecode, slot));
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

with_and_without_cells!(every_verdict_matches_the_model_and_refused_packets_are_not_charged);
