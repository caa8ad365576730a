//! Random limits and arrivals: the bytecode says of every single packet what the pure model says.

use std::cell::{Cell, RefCell};

use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use ratelimit::dataplane::object::Settings;
use ratelimit_common::{
    cell,
    gcra::{Answer, units},
    limit::{DAY, Limit, Rate, SECOND},
    policy::{Meter, Policy},
    reason::Reason,
    source::Source,
};
use ratelimit_tests::{
    Bytecode, Frame, Verdict,
    tokens::{self, Tokens},
};

/// Schedules in one run.
const SCHEDULES: u32 = 10_000;

/// One packet of a schedule.
#[derive(Debug, Clone)]
struct Arrival {
    /// Nanoseconds since the one before.
    gap: u64,
    /// Bytes of the frame.
    length: usize,
}

/// Rates spread evenly over the orders of magnitude, each number of digits as likely as the others.
fn rate(most_per_second: u64) -> impl Strategy<Value = Rate> {
    let period = prop::sample::select(&[SECOND, 60 * SECOND, 3600 * SECOND, DAY][..]);
    let digits = 0..=most_per_second.ilog10();
    (period, digits, any::<u64>()).prop_map(move |(period, digits, random)| {
        let most = most_per_second * (period / SECOND);
        let amount = 10u64.pow(digits) + random % (9 * 10u64.pow(digits));
        Rate { amount: amount.min(most), period }
    })
}

fn limit() -> impl Strategy<Value = Limit> {
    let packets = prop::option::weighted(0.8, rate(100_000_000));
    let bytes = prop::option::weighted(0.4, rate(50_000_000_000));
    let burst = prop_oneof![1u64..4, 1u64..50, 1u64..100_000].prop_map(Some);
    (packets, bytes, burst).prop_map(|(packets, bytes, burst)| Limit { packets, bytes, burst })
}

/// Gaps around what the limit itself takes for one packet, so that verdicts are often close.
fn arrivals(limit: &Limit) -> impl Strategy<Value = Vec<Arrival>> + use<> {
    let interval = |rate: Rate, count: u64| (rate.period / rate.amount.max(1)).saturating_mul(count).max(1);
    let typical = limit.packets.map(|rate| interval(rate, 1)).or(limit.bytes.map(|rate| interval(rate, 100)));
    let typical = typical.unwrap_or(1).min(DAY);
    let gap = prop_oneof![
        4 => Just(0),
        4 => 0..=typical,
        2 => typical..=typical * 4,
        1 => (0..=typical).prop_map(|gap| gap * 60),
        1 => Just(typical),
    ];
    prop::collection::vec((gap, 42usize..1_514).prop_map(|(gap, length)| Arrival { gap, length }), 1..60)
}

fn schedule() -> impl Strategy<Value = (Policy, Limit, Vec<Arrival>, u64)> {
    let possible = limit().prop_filter_map("a limit that cannot be", |limit| Some((limit.policy().ok()?, limit)));
    // Any time of the clock's nine years, also around the moments at which it wraps as units.
    let start = prop_oneof![0u64..1 << 40, 0u64..1 << 57, (1u64..1 << 4).prop_map(|wraps| (wraps << 54) - SECOND)];
    (possible, start)
        .prop_flat_map(|((policy, limit), start)| (Just(policy), Just(limit), arrivals(&limit), Just(start)))
}

/// What the limits say, from the algorithm alone.
struct Model<'a> {
    policy: &'a Policy,
    packets: u64,
    bytes: u64,
}

impl Model<'_> {
    fn judge(&mut self, now: u64, length: u32) -> Reason {
        let ask = |meter: &Meter, state: u64, amount: u32| match meter.is_on() {
            true => meter.ask(state, units(now), meter.cost_of(amount)),
            false => Answer::Admit(state),
        };
        let Answer::Admit(bytes) = ask(&self.policy.bytes, self.bytes, length) else { return Reason::OverBytes };
        let Answer::Admit(packets) = ask(&self.policy.packets, self.packets, 1) else { return Reason::OverPackets };
        (self.packets, self.bytes) = (packets, bytes);
        Reason::WithinLimit
    }
}

#[test]
fn every_verdict_is_the_models_and_every_bound_holds() {
    // All in the one cell, one after the other, so that each is alone in it.
    let cells = u32::from(crate::FRONT);
    let bytecode = RefCell::new(Bytecode::with(Settings { cells, ..crate::settings() }));
    let (source, verdicts) = (Cell::new(0u32), RefCell::new([0u64; 2]));
    let mut runner = TestRunner::new(Config { cases: SCHEDULES, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&schedule(), |(policy, limit, arrivals, start)| {
        source.set(source.get() + 1);
        let address = source.get().to_be_bytes();
        let mut bytecode = bytecode.borrow_mut();
        bytecode.set_time(start);
        bytecode.forget();
        if crate::FRONT {
            // A cell that was idle just now. What is long past may look like a debt, for moments every 208 days.
            let idle = cell::Cell { packets: units(start), bytes: units(start), ..cell::Cell::default() };
            bytecode.tables.front.set(0, idle, 0).unwrap();
        }
        bytecode.set_default(&policy);
        let mut now = start;
        let mut model = Model { policy: &policy, packets: units(start), bytes: units(start) };
        let (mut admitted, mut admitted_bytes, mut largest) = (0, 0, 0);
        // Where packets are all that is limited: what textbooks admit at a rate that is a thousandth lower, and one that is higher.
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
            let expected = model.judge(now, frame.len() as u32);
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
            // G1, at every moment of the schedule, from the operator's numbers and not from the fixed-point ones.
            let burst = policy.given.burst;
            if let Some(rate) = limit.packets {
                prop_assert!(admitted <= tokens::bound(rate, burst, now - start));
            }
            if let Some(rate) = limit.bytes {
                let burst = burst * u64::from(ratelimit_common::limit::BURST_FRAME);
                prop_assert!(admitted_bytes <= tokens::bound(rate, burst, now - start) + largest);
            }
        }
        // G2 and G3: not less than the lower, not more than the higher. (A rate that is hit exactly lies between.)
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
        if crate::FRONT {
            return Ok(());
        }
        let bucket = bytecode.bucket(Source::v4(address)).unwrap();
        prop_assert_eq!((bucket.passed_packets, bucket.passed_bytes), (admitted, admitted_bytes));
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    let [refused, admitted] = verdicts.into_inner();
    println!("{SCHEDULES} schedules: {admitted} packets admitted, {refused} refused");
    assert!(refused > 20_000 && admitted > 20_000, "the schedules hardly ask anything");
}
