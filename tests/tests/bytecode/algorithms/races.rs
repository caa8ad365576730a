//! Many CPUs on one source, by every algorithm.

use std::{sync::Barrier, thread};

use ratelimit_common::{
    limits::{
        algorithm::Algorithm,
        limit::{Limit, Rate},
    },
    reason::Reason,
};
use ratelimit_tests::{Bytecode, Verdict};

use super::{HOUR, MINUTE, frame, limit, load, packets, passed, source};

const THREADS: u32 = 8;
const SOURCES: u32 = 250;

/// Of so many threads, each sending `repeat` packets of each source at the same time as the others, what passes of each source within
/// its limit, and altogether what was refused and could not be judged.
fn race(bytecode: &Bytecode, threads: u32, repeat: u32, mut before: impl FnMut(&[u8])) -> (Vec<u64>, u64, u64) {
    let count = |reason| bytecode.count(reason);
    let (refused, contended) = (count(Reason::OverPackets), count(Reason::Contended));
    let start = Barrier::new(threads as usize + 1);
    let mut within = Vec::new();
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                for number in 0..SOURCES {
                    let frame = frame(source(number));
                    start.wait();
                    bytecode.repeat(&frame, repeat);
                    start.wait();
                }
            });
        }
        for number in 0..SOURCES {
            before(&frame(source(number)));
            let earlier = count(Reason::WithinLimit);
            start.wait();
            start.wait();
            within.push(count(Reason::WithinLimit) - earlier);
        }
    });
    (within, count(Reason::OverPackets) - refused, count(Reason::Contended) - contended)
}

#[test]
fn while_the_clock_stands_exactly_the_limit_passes_by_every_algorithm() {
    const LIMIT: u64 = 50;
    for algorithm in Algorithm::ALL {
        let mut bytecode = load(limit(algorithm, LIMIT, HOUR));
        bytecode.set_time(HOUR);
        let (within, refused, contended) = race(&bytecode, THREADS, 100, |_| {});
        let name = algorithm.name();
        assert!(within.iter().all(|count| *count == LIMIT), "{name}: {within:?}");
        let offered = u64::from(SOURCES * THREADS * 100);
        assert_eq!(within.iter().sum::<u64>() + refused + contended, offered, "{name}");
        assert!(contended <= offered / 1_000, "{name}: {contended} of {offered} packets could not be judged");
    }
}

#[test]
fn of_four_cpus_that_race_for_the_last_token_one_wins() {
    const LIMIT: u64 = 10;
    for algorithm in Algorithm::ALL {
        let mut bytecode = load(limit(algorithm, LIMIT, HOUR));
        bytecode.set_time(HOUR);
        let (within, refused, contended) =
            race(&bytecode, 4, 1, |frame| assert_eq!(passed(&bytecode, frame, LIMIT as u32 - 1), LIMIT - 1));
        assert!(within.iter().all(|count| *count == 1), "{}: {within:?}", algorithm.name());
        assert_eq!((refused, contended), (u64::from(SOURCES) * 3, 0), "{}", algorithm.name());
    }
}

/// The narrow limit holds for an hour and the wide one for two. What the narrow one has refused, the wide one has still in the next hour.
#[test]
fn of_two_limits_neither_is_spent_by_the_refusals_of_the_other_by_any_algorithm() {
    let (narrow, wide) = (Rate { amount: 30, period: HOUR }, Rate { amount: 45, period: 2 * HOUR });
    for algorithm in [Algorithm::FixedWindow, Algorithm::SlidingWindow, Algorithm::SlidingLog] {
        for (first, second) in [(narrow, wide), (wide, narrow)] {
            let limit = Limit { packets: Some(first), second_packets: Some(second), algorithm, ..Limit::default() };
            let mut bytecode = load(limit.policy().unwrap());
            bytecode.set_time(2 * HOUR);
            let (within, ..) = race(&bytecode, THREADS, 30, |_| {});
            assert!(within.iter().all(|count| *count == 30), "{limit:?}: {within:?}");
            // For a sliding window all of the hour before would weigh at first, and of the two hours before it does.
            let later = if algorithm == Algorithm::SlidingWindow { 4 * HOUR } else { 3 * HOUR };
            bytecode.set_time(later);
            let (within, ..) = race(&bytecode, THREADS, 30, |_| {});
            assert!(within.iter().all(|count| *count == 15), "{limit:?}: {within:?}");
        }
    }
}

/// Both limits run out with the same packet.
#[test]
fn of_two_limits_that_run_out_at_once_exactly_both_pass_by_every_algorithm() {
    for algorithm in Algorithm::ALL {
        let (amount, second_packets) = (40, Some(Rate { amount: 40, period: HOUR }));
        let limit = Limit { second_packets, ..packets(algorithm, amount, HOUR) };
        let mut bytecode = load(limit.policy().unwrap());
        bytecode.set_time(2 * HOUR);
        let (within, ..) = race(&bytecode, THREADS, 30, |_| {});
        // A bucket may give back a charge that another packet has met already, and which is refused for it.
        let least = if algorithm.is_bucket() { amount - u64::from(THREADS) } else { amount };
        assert!(within.iter().all(|count| (least..=amount).contains(count)), "{limit:?}: {within:?}");
    }
}

/// CPUs read the clock and change the state in different orders, also around the edges of windows.
#[test]
fn a_packet_that_read_the_clock_earlier_passes_by_no_algorithm() {
    const LIMIT: u32 = 10;
    for algorithm in Algorithm::ALL {
        let mut bytecode = load(limit(algorithm, u64::from(LIMIT), MINUTE));
        let frame = frame(source(1));
        let late = 60 * MINUTE;
        bytecode.set_time(late);
        assert_eq!(passed(&bytecode, &frame, LIMIT + 5), u64::from(LIMIT));
        for early in [1, 1_000, 1_000_000] {
            bytecode.set_time(late - early);
            assert_eq!(passed(&bytecode, &frame, 20), 0, "{} {early} ns", algorithm.name());
            bytecode.set_time(late);
            assert_eq!(bytecode.send(&frame), Verdict::Drop, "{} {early} ns", algorithm.name());
        }
    }
}
