//! Many sources in few cells.

use std::{
    cell::{Cell, RefCell},
    cmp::Reverse,
    collections::BinaryHeap,
};

use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use ratelimit_common::{
    identity::source::Source,
    limits::limit::{Rate, SECOND},
};
use ratelimit_dataplane::program::loader::Settings;
use ratelimit_tests::{Bytecode, Frame, Verdict, Walker, per_second, tokens::Tokens};

const CELLS: u32 = 4;
const SENDERS: u32 = 24;
/// Duration, in packets at the rate.
const PACKETS: u64 = 1_000;
/// One in so many packets of sources below the rate finds its bucket evicted.
const EVICTED: u64 = 50;

/// Sending pattern of a source, in thousandths of the time per packet at the rate.
#[derive(Debug, Clone, Copy)]
enum Habit {
    /// Sends far above the rate, with this gap.
    Over { gap: u64 },
    /// Stays below the rate: gaps of a thousand and up to so much more.
    Below { more: u64 },
    /// Sends with this gap during the first half of every period.
    OnOff { period: u64, gap: u64 },
}

/// One source and the verdicts of its packets.
struct Sender {
    habit: Habit,
    source: Source,
    frame: Vec<u8>,
    /// Model with a burst of one more packet. If it has a token at every admission, the source is within its bound over
    /// any interval.
    bound: Tokens,
    admitted: u64,
    refused: u64,
    evictions: u64,
}

fn habit(burst: u64) -> impl Strategy<Value = Habit> {
    // Periods range from a hundredth of the burst's drain time to four times that.
    let period = (10..4_000u64).prop_map(move |thousandths| thousandths * burst);
    prop_oneof![
        (100..500u64).prop_map(|gap| Habit::Over { gap }),
        (0..200u64).prop_map(|more| Habit::Below { more }),
        (period, 100..1_000u64).prop_map(|(period, gap)| Habit::OnOff { period: period.max(2_000), gap }),
    ]
}

fn crowd() -> impl Strategy<Value = (u64, u64, Vec<Habit>, u64)> {
    (prop::sample::select(&[7u64, 1_000, 250_000][..]), 4u64..60).prop_flat_map(|(rate, burst)| {
        (Just(rate), Just(burst), prop::collection::vec(habit(burst), SENDERS as usize), any::<u64>())
    })
}

#[test]
fn in_crowded_cells_each_source_gets_its_rate_and_no_more_than_its_limit() {
    let settings = Settings { cells: CELLS, admissions: 1_000_000, ..crate::settings() };
    let bytecode = RefCell::new(Bytecode::with(settings));
    // The clock never goes back, since budgets depend on it.
    let (begin, refused_below) = (Cell::new(3 * SECOND), RefCell::new((0, 0)));
    let mut runner = TestRunner::new(Config { cases: 12, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&crowd(), |(rate, burst, habits, seed)| {
        let mut bytecode = bytecode.borrow_mut();
        bytecode.forget();
        bytecode.set_default(&per_second(rate, burst));
        let (start, one) = (begin.get(), SECOND / rate);
        begin.set(start + 2 * PACKETS * one);
        bytecode.set_time(start);
        let mut senders = senders(&habits, Rate { amount: rate, period: SECOND }, burst, start);
        run(&mut bytecode, &mut senders, one, seed)?;
        for Sender { habit, admitted, refused, evictions, .. } in senders {
            match habit {
                // A new bucket starts with at most the cell's share as debt, which drains by one packet until the next
                // one.
                Habit::Below { .. } => {
                    prop_assert!(refused <= 1 + evictions, "{} refused after {} evictions", refused, evictions);
                    let mut sum = refused_below.borrow_mut();
                    *sum = (sum.0 + refused, sum.1 + 1 + evictions);
                }
                Habit::Over { .. } => {
                    let least = (PACKETS * 99 / 100).saturating_sub(burst);
                    prop_assert!(admitted >= least, "{} of {}", admitted, least);
                }
                Habit::OnOff { .. } => {}
            }
        }
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    let (refused, most) = refused_below.into_inner();
    println!("below their rate: {refused} packets refused, {most} allowed");
    assert!(refused > 0, "no cell was crowded");
}

fn senders(habits: &[Habit], rate: Rate, burst: u64, start: u64) -> Vec<Sender> {
    // A rate may deviate by a thousandth.
    let rate = Rate { amount: rate.amount * 1_001, period: rate.period * 1_000 };
    let sender = |(number, &habit): (u32, &Habit)| {
        let address = (0xc633_6400 + number).to_be_bytes();
        Sender {
            habit,
            source: Source::v4(address),
            frame: Frame::udp(address, 9).bytes(),
            bound: Tokens::full(rate, burst + 1, start),
            admitted: 0,
            refused: 0,
            evictions: 0,
        }
    };
    (0..).zip(habits).map(sender).collect()
}

/// Sends all packets in the order of time.
fn run(bytecode: &mut Bytecode, senders: &mut [Sender], one: u64, seed: u64) -> Result<(), TestCaseError> {
    let mut clock = bytecode.clock();
    let start = clock.advance(0);
    let (mut now, mut draws) = (start, 0);
    let mut draw = |below: u64| {
        draws += 1;
        Walker::draw(seed.wrapping_add(draws)) % below.max(1)
    };
    let mut due: BinaryHeap<_> =
        (0..senders.len()).map(|index| Reverse((start + draw(one * 5), draw(1 << 32), index))).collect();
    while let Some(Reverse((time, _, index))) = due.pop() {
        let sender = &mut senders[index];
        now = clock.advance(time - now);
        if matches!(sender.habit, Habit::Below { .. }) && draw(EVICTED) == 0 {
            sender.evictions += u64::from(bytecode.tables.buckets.open_mut().unwrap().remove(&sender.source).is_ok());
        }
        sender.bound.advance(now);
        if bytecode.send(&sender.frame) == Verdict::Pass {
            prop_assert!(sender.bound.take(1), "{:?} passed after {} others", sender.habit, sender.admitted);
            sender.admitted += 1;
        } else {
            sender.refused += 1;
        }
        let next = now + gap(sender.habit, now - start, one, &mut draw);
        if next <= start + PACKETS * one {
            due.push(Reverse((next, draw(1 << 32), index)));
        }
    }
    Ok(())
}

/// Returns the time until the next packet of a source. `one` is the time per packet at the rate.
fn gap(habit: Habit, time: u64, one: u64, draw: &mut impl FnMut(u64) -> u64) -> u64 {
    let thousandths = |count: u64| (one * count / 1_000).max(1);
    match habit {
        Habit::Over { gap } => thousandths(gap) + draw(thousandths(gap) / 4),
        // Rounded up, plus the deviation of a rate.
        Habit::Below { more } => one + one / 1_000 + 1 + draw(thousandths(more)),
        Habit::OnOff { period, gap } => {
            let (period, gap) = (thousandths(period), thousandths(gap));
            let at = (time + gap) % period;
            if at < period / 2 { gap } else { gap + period - at }
        }
    }
}
