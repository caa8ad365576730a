//! Sources with on-off traffic of every period.

use std::cell::RefCell;

use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use ratelimit_common::{
    identity::class::ANY,
    limits::{
        limit::{Rate, SECOND},
        policy::COARSE,
    },
    reason::Reason,
};
use ratelimit_dataplane::program::loader::Settings;
use ratelimit_tests::{Bytecode, Frame, per_second, tokens::Tokens};

const TICK: u64 = 4_000_000;
/// On-off cycles of a source.
const CYCLES: usize = 10;

/// A limit, and an on-off pattern.
#[derive(Debug, Clone)]
struct Rhythm {
    rate: u64,
    burst: u64,
    /// Nanoseconds per cycle.
    period: u64,
    /// Batches of each cycle: nanoseconds since the previous batch, and packets.
    batches: Vec<(u64, u32)>,
}

/// Generates periods from a 64th of the burst's drain time to 16 times that.
fn rhythm(least_drain: u64) -> impl Strategy<Value = Rhythm> {
    (1u64..2_000, 1u64..2_000).prop_flat_map(move |(rate, burst)| {
        let burst = burst.max((least_drain * rate).div_ceil(SECOND));
        let drain = burst * SECOND / rate;
        let exponent = -6.0..4.0f64;
        let on = 0.05..1.0f64;
        (exponent, on).prop_flat_map(move |(exponent, on)| {
            let period = ((drain as f64) * exponent.exp2()) as u64 + 10;
            let part = ((period as f64 * on) as u64 / 5).max(1);
            let batch = (0..=part, prop_oneof![1u32..4, 1..=(burst as u32)]);
            prop::collection::vec(batch, 1..6).prop_map(move |batches| Rhythm { rate, burst, period, batches })
        })
    })
}

/// Sends this pattern. Returns how many packets passed, and how many a token bucket with a smaller burst admits.
fn play(bytecode: &mut Bytecode, rhythm: &Rhythm, least_burst: u64) -> Result<(u64, u64), TestCaseError> {
    let Rhythm { rate, burst, period, ref batches } = *rhythm;
    // This time is between ticks. Set before `forget`, or the admission budget would start in the future.
    let start = 5 * SECOND + 1_234_567;
    bytecode.set_time(start);
    bytecode.forget();
    bytecode.set("default", per_second(rate, burst));
    let frame = Frame::udp([192, 0, 2, 1], 9).bytes();
    let off = |thousandths| Rate { amount: rate * thousandths, period: 1_000 * SECOND };
    let mut bound = Tokens::full(off(1_001), burst + 1, start);
    let mut least = Tokens::full(off(999), least_burst, start);
    let passed = |bytecode: &Bytecode| bytecode.tables.counters.of_reason(Reason::WithinLimit as u32).unwrap();
    let passed = |bytecode: &Bytecode| passed(bytecode).iter().map(|count| count.packets).sum::<u64>();
    let (first, mut count, mut expected) = (passed(bytecode), 0, 0);
    let mut clock = bytecode.clock();
    for cycle in 0..CYCLES as u64 {
        let begin = start + cycle * period;
        let mut now = clock.advance(0);
        now = clock.advance(begin.saturating_sub(now));
        for &(gap, packets) in batches {
            now = clock.advance(gap.min(begin + period - now));
            bytecode.repeat(&frame, packets);
            let before = count;
            count = passed(bytecode) - first;
            bound.advance(now);
            prop_assert!(bound.take(count - before), "{} passed, then {}", before, count - before);
            least.advance(now);
            expected += (0..packets).filter(|_| least.take(1)).count() as u64;
        }
    }
    Ok((count, expected))
}

#[test]
fn every_on_off_pattern_gets_its_limit() {
    let bytecode = RefCell::new(Bytecode::with(crate::settings()));
    let mut runner = TestRunner::new(Config { cases: 200, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&rhythm(0), |rhythm| {
        let (passed, least) = play(&mut bytecode.borrow_mut(), &rhythm, rhythm.burst)?;
        prop_assert!(passed >= least, "{} of {}", passed, least);
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

/// The clock moves between ticks, which the program does not see.
#[test]
fn on_the_coarse_clock_every_on_off_pattern_gets_at_most_its_limit_and_nearly_all_of_it() {
    let bytecode = RefCell::new(Bytecode::with(Settings { injected_tick: TICK, ..crate::settings() }));
    let mut runner = TestRunner::new(Config { cases: 200, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&rhythm(101 * TICK), |rhythm| {
        let mut bytecode = bytecode.borrow_mut();
        // The program takes one tick off the burst, and the clock may lag by another one.
        let lost = (2 * TICK * rhythm.rate).div_ceil(SECOND);
        let (passed, least) = play(&mut bytecode, &rhythm, rhythm.burst.saturating_sub(lost).max(1))?;
        prop_assert!(passed >= least, "{} of {}", passed, least);
        let slot = bytecode.tables.default_policy(ANY).unwrap();
        let policy = bytecode.tables.policies.get(slot).unwrap();
        prop_assert_eq!(policy.flags & COARSE, COARSE);
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}
