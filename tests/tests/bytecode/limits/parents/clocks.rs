//! Parents of sources that read different clocks.

use ratelimit_common::{
    identity::{class::ANY, source::IPV4},
    limits::{
        limit::{Rate, SECOND},
        policy::COARSE,
    },
    reason::Reason,
};
use ratelimit_dataplane::{program::loader::Settings, rules::spec::RuleSpec};
use ratelimit_tests::{Bytecode, Frame, Verdict, per_second, tokens::Tokens};

use super::{all, policy_in};
use crate::front::{Front, with_and_without_cells};

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
    let coarse = policy_in(&bytecode, bytecode.tables.default_policy(ANY).unwrap() as u16);
    let parent = policy_in(&bytecode, coarse.parents(IPV4)[0].policy);
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

with_and_without_cells!(
    a_parent_on_both_clocks_admits_at_most_its_limit_and_nearly_all_of_it,
    a_parent_admits_its_burst_once_whatever_the_clocks_of_its_sources,
);
