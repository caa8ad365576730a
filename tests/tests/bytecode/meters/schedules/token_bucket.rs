//! Random limits and arrivals: every verdict matches the model in fixed-point units.

use std::cell::{Cell, RefCell};

use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use ratelimit_common::{cells::cell, identity::source::Source, limits::limit::Rate, meters::gcra::units};
use ratelimit_dataplane::program::loader::Settings;
use ratelimit_tests::{
    Bytecode, Frame, Verdict,
    tokens::{self, Tokens},
};

use super::arrivals::{Arrival, Model, schedule};
use crate::front::{Front, with_and_without_cells};

/// Schedules in one run.
const SCHEDULES: u32 = 5_000;

fn every_verdict_matches_the_model_and_every_bound_holds(front: Front) {
    // All sources use one cell in turn, so each is alone in it.
    let cells = u32::from(front.is_on());
    let bytecode = RefCell::new(Bytecode::with(Settings { cells, ..front.settings() }));
    let (source, verdicts) = (Cell::new(0u32), RefCell::new([0u64; 2]));
    let mut runner = TestRunner::new(Config { cases: SCHEDULES, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&schedule(), |(policy, limit, arrivals, start)| {
        source.set(source.get() + 1);
        let address = source.get().to_be_bytes();
        let mut bytecode = bytecode.borrow_mut();
        bytecode.set_time(start);
        bytecode.forget();
        if front.is_on() {
            // The cell was idle just now. A time long past can look like a debt for a moment every 208 days.
            let idle = cell::Cell { packets: units(start), second: units(start), ..cell::Cell::default() };
            bytecode.tables.front.open_mut().unwrap().set(0, idle, 0).unwrap();
        }
        bytecode.set_default(&policy);
        let mut now = start;
        let mut model = Model::new(&policy, start);
        let (mut admitted, mut admitted_bytes, mut largest) = (0, 0, 0);
        // For packet limits alone: textbook buckets at a rate that is a thousandth lower, and one that is higher.
        let textbook = |thousandths| {
            let rate = limit.packets.filter(|_| limit.bytes.is_none())?;
            let rate = Rate { amount: rate.amount * thousandths, period: rate.period * 1_000 };
            Some((Tokens::full(rate, policy.given.burst, start), 0))
        };
        let mut textbooks = [textbook(999), textbook(1_001)];
        for Arrival { gap, length } in arrivals {
            now += gap;
            bytecode.set_time(now);
            let frame = Frame::udp(address, 9).length(length).bytes();
            let expected = model.decide(now, frame.len() as u32);
            let verdict = bytecode.send(&frame);
            prop_assert_eq!(verdict == Verdict::Pass, expected.passes(), "{:?} at {}", limit, now - start);
            for (tokens, count) in textbooks.iter_mut().flatten() {
                tokens.advance(now);
                *count += u64::from(tokens.take(1));
            }
            verdicts.borrow_mut()[usize::from(expected.passes())] += 1;
            if verdict == Verdict::Pass {
                admitted += 1;
                admitted_bytes += frame.len() as u64;
                largest = largest.max(frame.len() as u64);
            }
            // G1 holds at every moment of the schedule, computed from the operator's numbers.
            let burst = policy.given.burst;
            if let Some(rate) = limit.packets {
                prop_assert!(admitted <= tokens::bound(rate, burst, now - start));
            }
            if let Some(rate) = limit.bytes {
                let burst = burst * u64::from(ratelimit_common::limits::limit::BURST_FRAME);
                prop_assert!(admitted_bytes <= tokens::bound(rate, burst, now - start) + largest);
            }
        }
        // G2 and G3: the result lies between the lower and the higher rate.
        if let [Some((_, least)), Some((_, most))] = textbooks {
            prop_assert!(
                (least..=most).contains(&admitted),
                "{:?}: {} is not in {}..={}",
                limit,
                admitted,
                least,
                most
            );
        }
        if front.is_on() {
            return Ok(());
        }
        let bucket = bytecode.bucket(Source::v4(address)).unwrap();
        prop_assert_eq!((bucket.passed(), bucket.passed_bytes), (admitted, admitted_bytes));
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    let [refused, admitted] = verdicts.into_inner();
    println!("{SCHEDULES} schedules: {admitted} packets admitted, {refused} refused");
    assert!(refused > 10_000 && admitted > 10_000, "too few verdicts were close");
}

with_and_without_cells!(every_verdict_matches_the_model_and_every_bound_holds,);
