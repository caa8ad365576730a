//! Random limits and arrivals: every verdict matches the model of its algorithm.

pub(crate) mod arrivals;
pub(crate) mod draw;
mod token_bucket;

use std::cell::{Cell, RefCell};

use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use ratelimit_common::{
    cells::cell,
    identity::service::Service,
    limits::{
        algorithm::Algorithm,
        limit::{Limit, Rate},
        policy::{COARSE, Policy},
    },
    meters::{
        gcra::{Answer, units},
        meter::Meter,
    },
    rules::rule::COMMAND,
};
use ratelimit_dataplane::{
    program::loader::Settings,
    rules::costs::{self, Cost},
};
use ratelimit_tests::{
    Bytecode, Frame, Verdict,
    models::Limits,
    tokens::{self, Tokens},
};

use self::draw::{amounts, define, is_exact, lengths, schedule};
use super::assert_all_decided;
use crate::front::{Front, with_and_without_cells};

/// Schedules of each test.
const SCHEDULES: u32 = 1_500;
/// Tick of the coarse clock.
const TICK: u64 = 4_000_000;

/// Buckets in fixed-point units. They differ from the textbook only if a rate is not exact in units.
struct Units<'a>(&'a Policy, [u64; 2]);

impl Units<'_> {
    fn decide(&mut self, now: u64, length: u32, cost: u32) -> bool {
        let ask = |meter: &Meter, state, amount| match meter.is_on() {
            true => meter.ask(state, units(now), meter.cost_of(amount)),
            false => Answer::Admit(state),
        };
        let (first, second) = (ask(&self.0.packets, self.1[0], cost), self.0.second_amount(length, cost));
        let (Answer::Admit(first), Answer::Admit(second)) = (first, ask(&self.0.second, self.1[1], second)) else {
            return false;
        };
        self.1 = [first, second];
        true
    }
}

/// Textbook buckets at a rate that is a thousandth lower and one that is a thousandth higher, for a single packet
/// limit.
struct Bracket([(Tokens, u64); 2]);

impl Bracket {
    fn of(limit: &Limit, start: u64) -> Option<Self> {
        let rate = limit.packets.filter(|_| limit.bytes.is_none() && limit.second_packets.is_none())?;
        let burst = limit.burst?;
        let tokens = |thousandths| Rate { amount: rate.amount * thousandths, period: rate.period * 1_000 };
        Some(Self([999, 1_001].map(|thousandths| (Tokens::full(tokens(thousandths), burst, start), 0))))
    }

    fn offer(&mut self, now: u64) {
        for (tokens, count) in &mut self.0 {
            tokens.advance(now);
            *count += u64::from(tokens.take(1));
        }
    }
}

/// Returns whether window numbers have wrapped to the window of an admitted packet, as
/// [`ratelimit_common::meters::window`] documents. Another test covers these moments.
fn may_be_taken_for_later(limit: &Limit, last: u64, now: u64) -> bool {
    let around = match limit.algorithm {
        Algorithm::FixedWindow => 1 << 22,
        Algorithm::SlidingWindow => 1 << 14,
        _ => return false,
    };
    let passed = |length: u64| now / length - last / length;
    let is_near = |windows: u64| windows > 1 && (windows + 1) % around <= 2;
    lengths(limit).into_iter().any(|length| is_near(passed(length)))
}

/// Runs random schedules with an algorithm, on a clock with this tick. TCP SYN packets have this cost.
pub(crate) fn check(front: Front, algorithm: Algorithm, tick: u64, cost: u32) {
    // All sources use one cell in turn, so each is alone in it.
    let (cells, has_costs) = (u32::from(front.is_on()), cost != 1);
    let settings = Settings {
        cells,
        injected_tick: tick,
        services: has_costs,
        costs: has_costs,
        ..crate::meters::settings(front)
    };
    let bytecode = RefCell::new(Bytecode::with(settings));
    if has_costs {
        costs::set(&mut bytecode.borrow_mut().tables, Cost { service: Service::TcpSyn, cost, origin: COMMAND })
            .unwrap();
    }
    let (number, verdicts) = (Cell::new(0u32), RefCell::new([0u64; 2]));
    let (by_ticks, by_textbook, skipped) = (Cell::new(0u32), Cell::new(0u32), Cell::new(0u64));
    let mut runner = TestRunner::new(Config { cases: SCHEDULES, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&schedule(algorithm), |(limit, steps, start)| {
        number.set(number.get() + 1);
        let address = number.get().to_be_bytes();
        let mut bytecode = bytecode.borrow_mut();
        bytecode.set_time(start);
        bytecode.forget();
        if front.is_on() {
            let since = units(start - start.checked_rem(tick).unwrap_or(0));
            let idle = cell::Cell { packets: since, second: since, ..cell::Cell::default() };
            bytecode.tables.front.open_mut().unwrap().set(0, idle, 0).unwrap();
        }
        let policy = limit.policy().unwrap().for_costs(cost).by_ticks(units(tick));
        bytecode.set_default(&policy);
        // For buckets the policy decides about the clock, by its burst.
        let lasts = |length: &u64| *length >= 100 * tick;
        let is_coarse = match algorithm.is_bucket() {
            true => policy.flags & COARSE != 0,
            false => tick != 0 && lengths(&limit).iter().all(lasts),
        };
        by_ticks.set(by_ticks.get() + u32::from(is_coarse));
        let is_defined = !algorithm.is_bucket() || !is_coarse && is_exact(&limit);
        by_textbook.set(by_textbook.get() + u32::from(is_defined));
        let mut definition: Limits = define(&limit, if is_coarse { tick } else { 0 });
        let seen_at = |now: u64| if is_coarse { now - now % tick } else { now };
        let mut in_units = Units(&policy, [units(seen_at(start)); 2]);
        let mut bracket = Bracket::of(&limit, start).filter(|_| !is_coarse && !has_costs);
        let mut clock = bytecode.clock();
        let (mut now, mut admitted) = (start, Vec::new());
        for step in &steps {
            let time = step.time(&limit, now, &admitted);
            if admitted.last().is_some_and(|last| may_be_taken_for_later(&limit, *last, time)) {
                skipped.set(skipped.get() + 1);
                continue;
            }
            clock.advance(time - now);
            now = time;
            let (frame, cost) = match step.is_syn && has_costs {
                true => (Frame::syn(address, 443), cost),
                false => (Frame::udp(address, 9), 1),
            };
            let frame = frame.length(step.length).bytes();
            let seen = seen_at(now);
            let passes = bytecode.send(&frame) == Verdict::Pass;
            verdicts.borrow_mut()[usize::from(passes)] += 1;
            if is_defined {
                let expected = definition.decide(seen, &amounts(&limit, u64::from(cost), frame.len() as u64));
                prop_assert_eq!(passes, expected, "{:?} at {}: packet {:?}", limit, now, step);
            }
            if algorithm.is_bucket() {
                let expected = in_units.decide(seen, frame.len() as u32, cost);
                prop_assert_eq!(passes, expected, "{:?} at {}: packet {:?}", limit, now, step);
                bracket.iter_mut().for_each(|bracket| bracket.offer(now));
            }
            if passes {
                admitted.push(now);
            }
            if let (Some(rate), Some(burst)) = (limit.packets, limit.burst.filter(|_| !has_costs)) {
                let most = tokens::bound(rate, burst, now - start);
                prop_assert!(admitted.len() as u64 <= most, "{:?}: {} of {}", limit, admitted.len(), most);
            }
        }
        if let Some(Bracket([(_, least), (_, most)])) = bracket {
            let count = admitted.len() as u64;
            prop_assert!((least..=most).contains(&count), "{:?}: {} is not in {}..={}", limit, count, least, most);
        }
        if algorithm == Algorithm::SlidingLog {
            for rate in limit.packets.iter().chain(&limit.second_packets) {
                for (index, first) in admitted.iter().enumerate() {
                    let within = admitted[index..].iter().filter(|time| *time - first < rate.period).count();
                    prop_assert!(
                        within as u64 <= rate.amount,
                        "{} in the window from {} on, {:?}",
                        within,
                        first,
                        rate
                    );
                }
            }
        }
        Ok(())
    });
    assert_eq!(outcome.err().map(|error| error.to_string()), None);
    assert_all_decided(&bytecode.into_inner());
    let [refused, admitted] = verdicts.into_inner();
    let (by_ticks, by_textbook) = (by_ticks.get(), by_textbook.get());
    let name = algorithm.name();
    println!("{name}: {SCHEDULES} schedules: {admitted} packets admitted, {refused} refused; {by_ticks} by ticks");
    // Most schedules are too short for a wrap.
    assert!(skipped.get() < (admitted + refused) / 500, "{} packets were not sent", skipped.get());
    assert!(refused > 7_500 && admitted > 3_000, "too few verdicts were close");
    assert!(tick != 0 || by_textbook > SCHEDULES / 4, "{by_textbook} schedules by the textbook");
    assert!(tick == 0 || by_ticks > SCHEDULES / 4, "{by_ticks} schedules by the coarse clock");
}

fn every_token_bucket_verdict_matches_the_model(front: Front) {
    check(front, Algorithm::TokenBucket, 0, 1);
}

fn every_leaky_bucket_verdict_matches_the_model(front: Front) {
    check(front, Algorithm::LeakyBucket, 0, 1);
}

fn every_fixed_window_verdict_matches_the_model(front: Front) {
    check(front, Algorithm::FixedWindow, 0, 1);
}

fn every_sliding_window_verdict_matches_the_model(front: Front) {
    check(front, Algorithm::SlidingWindow, 0, 1);
}

fn every_sliding_log_verdict_matches_the_model_and_no_window_exceeds_the_limit(front: Front) {
    check(front, Algorithm::SlidingLog, 0, 1);
}

fn on_the_coarse_clock_every_token_bucket_verdict_matches_the_model(front: Front) {
    check(front, Algorithm::TokenBucket, TICK, 1);
}

fn on_the_coarse_clock_every_leaky_bucket_verdict_matches_the_model(front: Front) {
    check(front, Algorithm::LeakyBucket, TICK, 1);
}

fn on_the_coarse_clock_every_fixed_window_verdict_matches_the_model(front: Front) {
    check(front, Algorithm::FixedWindow, TICK, 1);
}

fn on_the_coarse_clock_every_sliding_window_verdict_matches_the_model(front: Front) {
    check(front, Algorithm::SlidingWindow, TICK, 1);
}

fn on_the_coarse_clock_no_window_of_a_sliding_log_exceeds_the_limit(front: Front) {
    check(front, Algorithm::SlidingLog, TICK, 1);
}

with_and_without_cells!(
    every_token_bucket_verdict_matches_the_model,
    every_leaky_bucket_verdict_matches_the_model,
    every_fixed_window_verdict_matches_the_model,
    every_sliding_window_verdict_matches_the_model,
    every_sliding_log_verdict_matches_the_model_and_no_window_exceeds_the_limit,
    on_the_coarse_clock_every_token_bucket_verdict_matches_the_model,
    on_the_coarse_clock_every_leaky_bucket_verdict_matches_the_model,
    on_the_coarse_clock_every_fixed_window_verdict_matches_the_model,
    on_the_coarse_clock_every_sliding_window_verdict_matches_the_model,
    on_the_coarse_clock_no_window_of_a_sliding_log_exceeds_the_limit,
);
