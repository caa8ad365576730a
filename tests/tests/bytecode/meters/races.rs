//! Many CPUs on one source: the bound holds (G1).

use std::{
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use ratelimit_common::{
    identity::source::Source,
    limits::{
        algorithm::Algorithm,
        limit::{Limit, Rate, SECOND},
    },
    reason::Reason,
};
use ratelimit_dataplane::sys::host;
use ratelimit_tests::{Bytecode, Frame, Verdict, tokens};

use super::{ADDRESS, HOUR, MINUTE, frame, limit, load, packets, passed, source};
use crate::front::{Front, with_and_without_cells};

const THREADS: u32 = 8;
/// Sources in each round of [`race_each_source`].
const SOURCES: u32 = 250;

/// Runs the same packet on many threads at once, each `rounds` times `repeat`.
fn race(bytecode: &Bytecode, frame: &[u8], rounds: u32, repeat: u32) -> u64 {
    let start = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                start.wait();
                for _ in 0..rounds {
                    bytecode.repeat(frame, repeat);
                }
            });
        }
    });
    u64::from(THREADS * rounds * repeat)
}

fn with_a_stopped_clock_exactly_the_burst_passes(front: Front) {
    let mut bytecode = Bytecode::with(front.settings());
    let rate = Rate { amount: 1_000, period: SECOND };
    let burst = 100_000;
    bytecode.set_default(&Limit { packets: Some(rate), burst: Some(burst), ..Limit::default() }.policy().unwrap());
    bytecode.set_time(SECOND);
    let offered = race(&bytecode, &Frame::udp(ADDRESS, 9).bytes(), 10, 20_000);
    let passed = bytecode.count(Reason::WithinLimit);
    assert_eq!(passed, burst);
    let refused = bytecode.count(Reason::OverPackets);
    assert_eq!(passed + refused, offered);
    if !front.is_on() {
        let bucket = bytecode.bucket(Source::v4(ADDRESS)).unwrap();
        assert_eq!(bucket.passed() + bucket.over_limit(), offered);
    }
}

/// CPUs can read the clock and write the state in different orders.
fn a_packet_with_an_older_timestamp_adds_no_tokens(front: Front) {
    let mut bytecode = Bytecode::with(front.settings());
    let rate = Rate { amount: 1_000_000, period: SECOND };
    let burst = 10;
    bytecode.set_default(&Limit { packets: Some(rate), burst: Some(burst), ..Limit::default() }.policy().unwrap());
    let frame = Frame::udp(ADDRESS, 9).bytes();
    let late = 2 * SECOND;
    bytecode.set_time(late);
    bytecode.repeat(&frame, 100);
    for early in [1, 1_000, 100_000, 900_000] {
        bytecode.set_time(late - early);
        bytecode.repeat(&frame, 100);
        bytecode.set_time(late);
        bytecode.repeat(&frame, 100);
        assert_eq!(bytecode.count(Reason::WithinLimit), burst, "{early} ns");
    }
}

/// CPUs read the kernel's clock at different moments, as in production. The test checks only the bound, which delays
/// cannot break.
fn the_bound_holds_on_the_kernel_clock(front: Front) {
    let frame = Frame::udp(ADDRESS, 9).bytes();
    for (amount, burst) in [(100_000, 1_000), (1_000_000, 100), (20_000_000, 10)] {
        let mut bytecode = Bytecode::with_kernel_clock_and(front.settings());
        let rate = Rate { amount, period: SECOND };
        bytecode.set_default(&Limit { packets: Some(rate), burst: Some(burst), ..Limit::default() }.policy().unwrap());
        let begin = host::now();
        race(&bytecode, &frame, 4, 200_000);
        let passed = bytecode.count(Reason::WithinLimit);
        let most = tokens::bound(rate, burst, host::now() - begin);
        assert!(passed > burst && passed <= most, "{amount}/s: {passed} of at most {most}");
    }
}

/// Two CPUs meet at the last byte token only by chance, so the test repeats this often.
fn with_two_limits_a_refusal_by_one_does_not_charge_the_other(front: Front) {
    let mut bytecode = Bytecode::with(front.settings());
    bytecode.set_time(SECOND);
    let burst = 20_000;
    let limit = Limit {
        packets: Some(Rate { amount: 1, period: SECOND }),
        bytes: Some(Rate { amount: 1_000, period: SECOND }),
        burst: Some(burst),
        ..Limit::default()
    };
    let both = limit.policy().unwrap();
    // The bytes run out when half of the packets are spent.
    let mut fewer_bytes = both;
    fewer_bytes.second.burst /= 2;
    for host in 0..250 {
        bytecode.forget();
        let before = bytecode.count(Reason::WithinLimit);
        let passed = |bytecode: &Bytecode| bytecode.count(Reason::WithinLimit) - before;
        bytecode.set_default(&fewer_bytes);
        race(&bytecode, &Frame::udp([192, 0, 2, host], 9).length(1_514).bytes(), 1, 5_000);
        assert_eq!(passed(&bytecode), burst / 2);
        // With new byte tokens, the other half of the packets is left: the program returned the charges of packets that
        // the limit of bytes refused.
        bytecode.set_default(&both);
        race(&bytecode, &Frame::udp([192, 0, 2, host], 9).bytes(), 1, 5_000);
        // A charge stays if another CPU has charged the same word since.
        let least = burst - u64::from(THREADS);
        assert!((least..=burst).contains(&passed(&bytecode)), "host {host}: {}", passed(&bytecode));
    }
}

fn with_a_running_clock_the_bound_holds_and_tokens_return(front: Front) {
    let mut bytecode = Bytecode::with(front.settings());
    let rate = Rate { amount: 1_000_000, period: SECOND };
    let burst = 100;
    bytecode.set_default(&Limit { packets: Some(rate), burst: Some(burst), ..Limit::default() }.policy().unwrap());
    bytecode.set_time(SECOND);
    let frame = Frame::udp(ADDRESS, 9).bytes();
    let done = AtomicBool::new(false);
    let mut clock = bytecode.clock();
    let ran = thread::scope(|scope| {
        let mover = scope.spawn(|| {
            // One microsecond at a time returns one token, which any CPU can take.
            while !done.load(Ordering::Relaxed) {
                clock.advance(1_000);
            }
            clock.advance(0) - SECOND
        });
        race(&bytecode, &frame, 40, 5_000);
        done.store(true, Ordering::Relaxed);
        mover.join().unwrap()
    });
    let passed = bytecode.count(Reason::WithinLimit);
    assert!(passed <= tokens::bound(rate, burst, ran), "{passed} in {ran} ns");
    assert!(passed > burst, "the clock did not advance");
}

/// Each thread sends `repeat` packets of each source at the same time as the others. Returns how many of each source
/// passed, and the sum of refused packets.
fn race_each_source(bytecode: &Bytecode, threads: u32, repeat: u32, mut before: impl FnMut(&[u8])) -> (Vec<u64>, u64) {
    let count = |reason| bytecode.count(reason);
    let refused = count(Reason::OverPackets);
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
    (within, count(Reason::OverPackets) - refused)
}

fn with_a_stopped_clock_exactly_the_limit_passes_with_every_algorithm(front: Front) {
    const LIMIT: u64 = 50;
    for algorithm in Algorithm::ALL {
        let mut bytecode = load(front, limit(algorithm, LIMIT, HOUR));
        bytecode.set_time(HOUR);
        let (within, refused) = race_each_source(&bytecode, THREADS, 100, |_| {});
        let name = algorithm.name();
        assert!(within.iter().all(|count| *count == LIMIT), "{name}: {within:?}");
        let offered = u64::from(SOURCES * THREADS * 100);
        assert_eq!(within.iter().sum::<u64>() + refused, offered, "{name}");
    }
}

fn of_four_cpus_competing_for_the_last_token_exactly_one_passes(front: Front) {
    const LIMIT: u64 = 10;
    for algorithm in Algorithm::ALL {
        let mut bytecode = load(front, limit(algorithm, LIMIT, HOUR));
        bytecode.set_time(HOUR);
        let (within, refused) = race_each_source(&bytecode, 4, 1, |frame| {
            assert_eq!(passed(&bytecode, frame, LIMIT as u32 - 1), LIMIT - 1);
        });
        assert!(within.iter().all(|count| *count == 1), "{}: {within:?}", algorithm.name());
        assert_eq!(refused, u64::from(SOURCES) * 3, "{}", algorithm.name());
    }
}

/// The narrow limit has a period of one hour and the wide one of two hours. Refusals by the narrow limit must not
/// charge the wide one.
fn with_two_limits_a_refusal_by_one_does_not_charge_the_other_with_any_window_algorithm(front: Front) {
    let (narrow, wide) = (Rate { amount: 30, period: HOUR }, Rate { amount: 45, period: 2 * HOUR });
    for algorithm in [Algorithm::FixedWindow, Algorithm::SlidingWindow, Algorithm::SlidingLog] {
        for (first, second) in [(narrow, wide), (wide, narrow)] {
            let limit = Limit { packets: Some(first), second_packets: Some(second), algorithm, ..Limit::default() };
            let mut bytecode = load(front, limit.policy().unwrap());
            bytecode.set_time(2 * HOUR);
            let (within, ..) = race_each_source(&bytecode, THREADS, 30, |_| {});
            assert!(within.iter().all(|count| *count == 30), "{limit:?}: {within:?}");
            // For a sliding window the whole previous hour would count at first, and the whole previous two hours still
            // do.
            let later = if algorithm == Algorithm::SlidingWindow { 4 * HOUR } else { 3 * HOUR };
            bytecode.set_time(later);
            let (within, ..) = race_each_source(&bytecode, THREADS, 30, |_| {});
            assert!(within.iter().all(|count| *count == 15), "{limit:?}: {within:?}");
        }
    }
}

/// Both limits run out with the same packet.
fn two_limits_that_run_out_together_admit_their_amount_with_every_algorithm(front: Front) {
    for algorithm in Algorithm::ALL {
        let (amount, second_packets) = (40, Some(Rate { amount: 40, period: HOUR }));
        let limit = Limit { second_packets, ..packets(algorithm, amount, HOUR) };
        let mut bytecode = load(front, limit.policy().unwrap());
        bytecode.set_time(2 * HOUR);
        let (within, ..) = race_each_source(&bytecode, THREADS, 30, |_| {});
        // A bucket may return a charge after it made another packet fail.
        let least = if algorithm.is_bucket() { amount - u64::from(THREADS) } else { amount };
        assert!(within.iter().all(|count| (least..=amount).contains(count)), "{limit:?}: {within:?}");
    }
}

/// CPUs can read the clock and write the state in different orders, even around window boundaries.
fn a_packet_with_an_older_timestamp_passes_with_no_algorithm(front: Front) {
    const LIMIT: u32 = 10;
    for algorithm in Algorithm::ALL {
        let mut bytecode = load(front, limit(algorithm, u64::from(LIMIT), MINUTE));
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

with_and_without_cells!(
    with_a_stopped_clock_exactly_the_burst_passes,
    a_packet_with_an_older_timestamp_adds_no_tokens,
    the_bound_holds_on_the_kernel_clock,
    with_two_limits_a_refusal_by_one_does_not_charge_the_other,
    with_a_running_clock_the_bound_holds_and_tokens_return,
    with_a_stopped_clock_exactly_the_limit_passes_with_every_algorithm,
    of_four_cpus_competing_for_the_last_token_exactly_one_passes,
    with_two_limits_a_refusal_by_one_does_not_charge_the_other_with_any_window_algorithm,
    two_limits_that_run_out_together_admit_their_amount_with_every_algorithm,
    a_packet_with_an_older_timestamp_passes_with_no_algorithm,
);
