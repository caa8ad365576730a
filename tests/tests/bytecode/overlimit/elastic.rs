//! Elastic limits: packets over the limit pass while the interface has capacity.

use ratelimit_common::{
    limits::{algorithm::Algorithm, limit::SECOND, policy::Policy},
    reason::Reason,
};
use ratelimit_dataplane::{program::loader::Settings, rules::capacities};
use ratelimit_tests::{Bytecode, per_second, stay_on_cpu};

use crate::{
    front::{Front, with_and_without_cells},
    meters::{ADDRESS, HOUR, assert_all_decided, frame, limit},
};

/// Index of the loopback, the interface of test runs.
const LOOPBACK: u32 = 1;
const MILLISECOND: u64 = SECOND / 1_000;
/// Packets per millisecond.
const CAPACITY: u64 = 10;
/// Burst of an interface, in milliseconds.
const BURST: u64 = 10;
/// A source that stays within its limit.
const WITHIN_LIMIT: [u8; 4] = [198, 51, 100, 1];

struct Run {
    bytecode: Bytecode,
    /// Time in milliseconds.
    time: u64,
}

impl Run {
    /// Loads a limit of one packet per hour, and a capacity.
    fn new(front: Front, algorithm: Algorithm, tick: u64, interface: u32) -> Self {
        // Each CPU counts separately until a batch is full.
        stay_on_cpu(0);
        let settings = Settings { elastic: true, actions: true, injected_tick: tick, ..crate::meters::settings(front) };
        let mut bytecode = Bytecode::with(settings);
        bytecode.set_time(HOUR);
        bytecode.set("default", Policy { elastic: 1, ..limit(algorithm, 1, HOUR) });
        bytecode.set("198.51.100.0/24", per_second(1_000_000, 1_000_000));
        capacities::set(&mut bytecode.tables, interface, CAPACITY * 1_000).unwrap();
        let run = Self { bytecode, time: 0 };
        run.bytecode.repeat(&frame(ADDRESS), 1);
        run
    }

    /// Sends packets within a limit and over one in each millisecond. Returns how many over the limit passed in each.
    fn offer(&mut self, milliseconds: u64, within: u32, over: u32) -> Vec<u64> {
        let counts = |run: &Self| {
            [Reason::WithinLimit, Reason::WithinCapacity, Reason::OverPackets].map(|reason| run.bytecode.count(reason))
        };
        let (mut before, mut passed) = (counts(self), Vec::new());
        for _ in 0..milliseconds {
            self.time += 1;
            self.bytecode.set_time(HOUR + self.time * MILLISECOND);
            if within != 0 {
                self.bytecode.repeat(&frame(WITHIN_LIMIT), within);
            }
            self.bytecode.repeat(&frame(ADDRESS), over);
            let after = counts(self);
            assert_eq!(after[0] - before[0], u64::from(within), "a source within its limit lost packets");
            assert_eq!(after[1] + after[2] - before[1] - before[2], u64::from(over));
            passed.push(after[1] - before[1]);
            before = after;
        }
        passed
    }
}

/// Asserts that the sum in any interval is at most the capacity plus the interface's burst, one batch, and one tick of
/// the coarse clock.
fn assert_within_capacity(over: &[u64], within: u64, tick: u64) {
    for begin in 0..over.len() {
        let mut sum = 0;
        for (milliseconds, passed) in (1..).zip(&over[begin..]) {
            sum += within + passed;
            let most = CAPACITY * (milliseconds + BURST + 1 + tick / MILLISECOND);
            assert!(sum <= most, "{sum} of {most} in {milliseconds} ms from {begin} ms on");
        }
    }
}

fn check(front: Front, algorithm: Algorithm, tick: u64) {
    let name = algorithm.name();
    let mut run = Run::new(front, algorithm, tick, LOOPBACK);
    // Half of the capacity is used, so the other half is free.
    let over = run.offer(500, 5, 20);
    assert_within_capacity(&over, 5, tick);
    let sum: u64 = over.iter().sum();
    assert!((5 * 490..=5 * 500 + 10 * (BURST + 1 + tick / MILLISECOND)).contains(&sum), "{name}: {sum} in 500 ms");
    // Traffic within limits uses a fifth more than the capacity.
    let over = run.offer(300, 12, 20);
    assert_eq!(over[100..].iter().sum::<u64>(), 0, "{name}: {over:?}");
    // Soon after, half of the capacity is free again.
    let over = run.offer(500, 5, 20);
    assert!(over[..100].iter().any(|passed| *passed != 0), "{name}: {over:?}");
    assert!(over[100..].iter().sum::<u64>() >= 5 * 390, "{name}: {over:?}");
    assert_within_capacity(&over, 5, tick);
    // The interface was idle for a long time.
    run.time += 10_000;
    let over = run.offer(300, 12, 20);
    assert!(over[0] != 0, "{name}: {over:?}");
    assert_eq!(over[100..].iter().sum::<u64>(), 0, "{name}: {over:?}");
    assert_all_decided(&run.bytecode);
}

fn over_an_elastic_limit_packets_pass_within_capacity_with_every_algorithm(front: Front) {
    for algorithm in Algorithm::ALL {
        check(front, algorithm, 0);
    }
}

fn on_the_coarse_clock_elastic_packets_pass_within_capacity(front: Front) {
    for algorithm in [Algorithm::TokenBucket, Algorithm::SlidingLog] {
        check(front, algorithm, 4 * MILLISECOND);
    }
}

/// A hypervisor can stop the CPU that keeps the ticks, while others go on.
fn late_ticks_leave_the_capacity_free(front: Front) {
    let run = &mut Run::new(front, Algorithm::TokenBucket, 4 * MILLISECOND, LOOPBACK).bytecode;
    let mut control = run.tables.control().unwrap();
    control.clock += 60 * MILLISECOND;
    run.tables.set_control(&control).unwrap();
    run.repeat(&frame(ADDRESS), 50);
    assert_eq!([Reason::WithinCapacity, Reason::OverPackets].map(|reason| run.count(reason)), [50, 0]);
}

/// One source uses the whole capacity and no more.
fn without_other_traffic_one_source_gets_the_whole_capacity(front: Front) {
    let mut run = Run::new(front, Algorithm::TokenBucket, 0, LOOPBACK);
    let over = run.offer(1_000, 0, 50);
    assert_within_capacity(&over, 0, 0);
    let sum: u64 = over.iter().sum();
    assert!((10_000..=10_000 + 10 * (BURST + 1)).contains(&sum), "{sum}");
}

fn on_an_interface_without_capacity_nothing_passes_over_the_limit(front: Front) {
    let mut run = Run::new(front, Algorithm::TokenBucket, 0, LOOPBACK + 1);
    assert_eq!(run.offer(100, 1, 20).iter().sum::<u64>(), 0);
    // An interface that maps to the same slot has no capacity either.
    let mut run = Run::new(front, Algorithm::TokenBucket, 0, LOOPBACK + 256);
    assert_eq!(run.offer(100, 1, 20).iter().sum::<u64>(), 0);
}

fn after_the_capacity_is_removed_nothing_passes_over_the_limit(front: Front) {
    let mut run = Run::new(front, Algorithm::TokenBucket, 0, LOOPBACK);
    assert!(run.offer(100, 1, 20).iter().sum::<u64>() >= 800);
    capacities::set(&mut run.bytecode.tables, LOOPBACK, 0).unwrap();
    assert_eq!(run.offer(100, 1, 20).iter().sum::<u64>(), 0);
}

with_and_without_cells!(
    over_an_elastic_limit_packets_pass_within_capacity_with_every_algorithm,
    on_the_coarse_clock_elastic_packets_pass_within_capacity,
    late_ticks_leave_the_capacity_free,
    without_other_traffic_one_source_gets_the_whole_capacity,
    on_an_interface_without_capacity_nothing_passes_over_the_limit,
    after_the_capacity_is_removed_nothing_passes_over_the_limit,
);
