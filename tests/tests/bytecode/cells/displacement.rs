//! Sources under different rules in one cell, whose states displace each other.

use std::cell::{Cell, RefCell};

use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use ratelimit_common::{
    identity::source::Source,
    limits::{
        limit::{Rate, SECOND},
        policy::{Ban, Policy},
    },
    reason::Reason,
};
use ratelimit_dataplane::program::loader::Settings;
use ratelimit_tests::{Bytecode, Frame, Verdict, per_second, tokens::Tokens};

const SOURCES: usize = 6;
const RATE: Rate = Rate { amount: 2, period: SECOND };
const BURST: u64 = 4;

/// The rule of one source.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Allowed,
    Denied,
    Limited,
    /// Limited, and banned for a second.
    Banned,
}

#[derive(Debug, Clone)]
enum Step {
    /// Packets of one source.
    Packets(usize, u32),
    /// Milliseconds without a packet.
    Wait(u64),
    /// A rule is replaced, and every cached refusal ends.
    Change(usize, Kind),
    /// The bucket of one source is evicted.
    Evict(usize),
}

fn kind() -> impl Strategy<Value = Kind> {
    prop::sample::select(&[Kind::Allowed, Kind::Denied, Kind::Limited, Kind::Banned][..])
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..SOURCES, 1..12u32).prop_map(|(source, packets)| Step::Packets(source, packets)),
        4 => (1..1_500u64).prop_map(Step::Wait),
        1 => (0..SOURCES, kind()).prop_map(|(source, kind)| Step::Change(source, kind)),
        1 => (0..SOURCES).prop_map(Step::Evict),
    ]
}

fn address(source: usize) -> [u8; 4] {
    [192, 0, 2, source as u8 + 1]
}

fn set(bytecode: &mut Bytecode, source: usize, kind: Kind) {
    let limit = per_second(RATE.amount, BURST);
    let policy = match kind {
        Kind::Allowed => Policy::ALLOWED,
        Kind::Denied => Policy::DENIED,
        Kind::Limited => limit,
        Kind::Banned => Policy { ban: Ban { time: SECOND, most: SECOND, after: 1, reserved: 0 }, ..limit },
    };
    let [a, b, c, d] = address(source);
    bytecode.set(&format!("{a}.{b}.{c}.{d}"), policy);
}

/// Time after which a limited source owes nothing.
const REST: u64 = 3 * SECOND;

/// Plays steps. Denies and allows are exact, and no limited source passes more than its limit. After a rest, it passes.
/// An evicted bucket may begin with the debt of its cell.
fn play(
    bytecode: &mut Bytecode,
    now: &mut u64,
    mut kinds: [Kind; SOURCES],
    steps: Vec<Step>,
) -> Result<(), TestCaseError> {
    for (source, kind) in kinds.into_iter().enumerate() {
        set(bytecode, source, kind);
    }
    // A rate may deviate by a thousandth.
    let rate = Rate { amount: RATE.amount * 1_001, period: RATE.period * 1_000 };
    let mut bounds = [(); SOURCES].map(|()| Tokens::full(rate, BURST + 1, *now));
    // Since when a limited source is silent, if it has a bucket.
    let mut silent = [None; SOURCES];
    for step in steps {
        match step {
            Step::Wait(milliseconds) => {
                *now += milliseconds * SECOND / 1_000;
                bytecode.set_time(*now);
            }
            Step::Change(source, kind) => {
                // The levels of a limit that no rule has used meanwhile begin anew.
                if matches!(kinds[source], Kind::Allowed | Kind::Denied) {
                    bounds[source] = Tokens::full(rate, BURST + 1, *now);
                }
                kinds[source] = kind;
                set(bytecode, source, kind);
            }
            Step::Evict(source) => {
                let _ = bytecode.tables.buckets.open_mut().unwrap().remove(&Source::v4(address(source)));
                silent[source] = None;
            }
            Step::Packets(source, packets) => {
                let frame = Frame::udp(address(source), 9).bytes();
                bounds[source].advance(*now);
                let is_rested = silent[source].is_some_and(|since| *now >= since + REST);
                if is_rested && kinds[source] == Kind::Limited {
                    prop_assert_eq!(bytecode.send(&frame), Verdict::Pass, "source {} after a rest", source);
                    prop_assert!(bounds[source].take(1), "source {} passed too much", source);
                }
                for _ in 0..packets {
                    match kinds[source] {
                        Kind::Allowed => prop_assert_eq!(bytecode.reason(&frame), Reason::Allowed),
                        Kind::Denied => prop_assert_eq!(bytecode.reason(&frame), Reason::Denied),
                        Kind::Limited | Kind::Banned => {
                            if bytecode.send(&frame) == Verdict::Pass {
                                prop_assert!(bounds[source].take(1), "source {} passed too much", source);
                            }
                        }
                    }
                }
                // A cached refusal creates no bucket in place of an evicted one.
                silent[source] = bytecode.bucket(Source::v4(address(source))).map(|_| *now);
            }
        }
    }
    Ok(())
}

fn displace(settings: Settings) {
    // The clock never goes back, since budgets depend on it.
    let (bytecode, now, displaced) = (RefCell::new(Bytecode::with(settings)), Cell::new(3 * SECOND), Cell::new(0));
    let mut runner = TestRunner::new(Config { cases: 60, failure_persistence: None, ..Config::default() });
    let kinds = prop::array::uniform(kind());
    let outcome = runner.run(&(kinds, prop::collection::vec(step(), 1..120)), |(kinds, steps)| {
        let mut bytecode = bytecode.borrow_mut();
        let mut time = now.get() + 10 * SECOND;
        bytecode.set_time(time);
        bytecode.forget();
        let outcome = play(&mut bytecode, &mut time, kinds, steps);
        now.set(time);
        let refusals: u64 = bytecode.cpus().iter().map(|cpu| cpu.displaced_refusals).sum();
        displaced.set(displaced.get() + refusals);
        outcome
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    assert!(displaced.get() > 0, "no refusal was displaced");
}

#[test]
fn refusals_of_all_kinds_in_one_cell_change_no_verdict_of_a_rule_and_admit_no_packet_too_many() {
    displace(Settings { cells: 1, bans: true, ..crate::settings() });
}

#[test]
fn beside_known_sources_and_candidates_refusals_in_one_cell_admit_no_packet_too_many() {
    displace(Settings { cells: 1, bans: true, unknown: 100_000_000, ..crate::settings() });
}
