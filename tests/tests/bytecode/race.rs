//! G1 with many CPUs on one source.

use std::{
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use ratelimit::dataplane::sys::host;
use ratelimit_common::{
    identity::source::Source,
    limits::limit::{Limit, Rate, SECOND},
    reason::Reason,
};
use ratelimit_tests::{Bytecode, Frame, tokens};

const THREADS: u32 = 8;
const ADDRESS: [u8; 4] = [192, 0, 2, 1];

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

#[test]
fn while_the_clock_stands_exactly_the_burst_passes() {
    let mut bytecode = Bytecode::with(crate::settings());
    let rate = Rate { amount: 1_000, period: SECOND };
    let burst = 100_000;
    bytecode.set_default(&Limit { packets: Some(rate), burst: Some(burst), ..Limit::default() }.policy().unwrap());
    bytecode.set_time(SECOND);
    let offered = race(&bytecode, &Frame::udp(ADDRESS, 9).bytes(), 10, 20_000);
    // Whoever lost sixteen races in a row passed uncharged, and says so.
    let passed = bytecode.count(Reason::WithinLimit);
    assert_eq!(passed, burst);
    let refused = bytecode.count(Reason::OverPackets);
    let contended = bytecode.count(Reason::Contended);
    assert_eq!(passed + refused + contended, offered);
    assert!(contended <= offered / 1_000, "{contended} of {offered} packets could not be judged");
    if !crate::FRONT {
        let bucket = bytecode.bucket(Source::v4(ADDRESS)).unwrap();
        assert_eq!(bucket.passed_packets + bucket.dropped_packets, offered);
    }
}

/// CPUs read the clock and change the state in different orders.
#[test]
fn a_packet_that_read_the_clock_earlier_mints_nothing() {
    let mut bytecode = Bytecode::with(crate::settings());
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

/// CPUs that read the kernel's own clock at different moments, as in production. Only the bound is looked at, which no delay can break.
#[test]
fn by_the_kernels_clock_the_bound_holds_too() {
    let frame = Frame::udp(ADDRESS, 9).bytes();
    for (amount, burst) in [(100_000, 1_000), (1_000_000, 100), (20_000_000, 10)] {
        let mut bytecode = Bytecode::with_kernel_clock_and(crate::settings());
        let rate = Rate { amount, period: SECOND };
        bytecode.set_default(&Limit { packets: Some(rate), burst: Some(burst), ..Limit::default() }.policy().unwrap());
        let begin = host::now();
        race(&bytecode, &frame, 4, 200_000);
        let passed = bytecode.count(Reason::WithinLimit);
        let most = tokens::bound(rate, burst, host::now() - begin);
        assert!(passed > burst && passed <= most, "{amount}/s: {passed} of at most {most}");
    }
}

/// Whether two CPUs meet at the last token of bytes is up to them, so they get many chances.
#[test]
fn of_two_limits_neither_is_spent_by_the_refusals_of_the_other() {
    let mut bytecode = Bytecode::with(crate::settings());
    bytecode.set_time(SECOND);
    let burst = 20_000;
    let limit = Limit {
        packets: Some(Rate { amount: 1, period: SECOND }),
        bytes: Some(Rate { amount: 1_000, period: SECOND }),
        burst: Some(burst),
        ..Limit::default()
    };
    let both = limit.policy().unwrap();
    // The bytes run out with the packets half spent.
    let mut fewer_bytes = both;
    fewer_bytes.second.capacity /= 2;
    for host in 0..250 {
        bytecode.forget();
        let before = bytecode.count(Reason::WithinLimit);
        let passed = |bytecode: &Bytecode| bytecode.count(Reason::WithinLimit) - before;
        bytecode.set_default(&fewer_bytes);
        race(&bytecode, &Frame::udp([192, 0, 2, host], 9).length(1_514).bytes(), 1, 5_000);
        assert_eq!(passed(&bytecode), burst / 2);
        // With room for bytes again, exactly the other half of the packets is left: every lost charge was given back.
        bytecode.set_default(&both);
        race(&bytecode, &Frame::udp([192, 0, 2, host], 9).bytes(), 1, 5_000);
        // A packet that meets another's charge just before it is given back may pay to its own bucket what there was room for in the cell.
        let least = if crate::FRONT { burst - u64::from(THREADS) } else { burst };
        let contended = bytecode.count(Reason::Contended);
        assert!(
            (least..=burst).contains(&passed(&bytecode)),
            "host {host}, {}, {contended} contended",
            passed(&bytecode)
        );
    }
}

#[test]
fn while_the_clock_runs_the_bound_holds_and_the_flow_is_kept() {
    let mut bytecode = Bytecode::with(crate::settings());
    let rate = Rate { amount: 1_000_000, period: SECOND };
    let burst = 100;
    bytecode.set_default(&Limit { packets: Some(rate), burst: Some(burst), ..Limit::default() }.policy().unwrap());
    bytecode.set_time(SECOND);
    let frame = Frame::udp(ADDRESS, 9).bytes();
    let done = AtomicBool::new(false);
    let mut clock = bytecode.clock();
    let ran = thread::scope(|scope| {
        let mover = scope.spawn(|| {
            // A microsecond at a time: one token each, taken by whichever CPU comes first.
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
    assert!(passed > burst, "the clock did not run");
}
