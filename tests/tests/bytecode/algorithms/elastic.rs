//! Elastic limits: what is over them passes while the interface has room.

use ratelimit::dataplane::{program::loader::Settings, rules::capacities};
use ratelimit_common::{
    limits::{algorithm::Algorithm, limit::SECOND, policy::Policy},
    reason::Reason,
};
use ratelimit_tests::{Bytecode, per_second};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::{ADDRESS, HOUR, assert_all_judged, frame, limit};

/// Of the interface that test runs show, the loopback.
const LOOPBACK: u32 = 1;
const MILLISECOND: u64 = SECOND / 1_000;
/// Packets per millisecond.
const CAPACITY: u64 = 10;
/// Milliseconds by which an interface may be ahead.
const BURST: u64 = 10;
/// Within its limit whatever it sends here.
const REGULAR: [u8; 4] = [198, 51, 100, 1];

struct Run {
    bytecode: Bytecode,
    /// Milliseconds.
    time: u64,
}

impl Run {
    /// One packet an hour, unless there is room.
    fn new(algorithm: Algorithm, tick: u64, interface: u32) -> Self {
        // Each CPU counts for itself until a batch is full.
        let mut cpus = CpuSet::new();
        cpus.set(0);
        sched_setaffinity(None, &cpus).unwrap();
        let settings = Settings { elastic: true, actions: true, injected_tick: tick, ..super::settings() };
        let mut bytecode = Bytecode::with(settings);
        bytecode.set_time(HOUR);
        bytecode.set("default", Policy { elastic: 1, ..limit(algorithm, 1, HOUR) });
        bytecode.set("198.51.100.0/24", per_second(1_000_000, 1_000_000));
        capacities::set(&mut bytecode.tables, interface, CAPACITY * 1_000).unwrap();
        let run = Self { bytecode, time: 0 };
        run.bytecode.repeat(&frame(ADDRESS), 1);
        run
    }

    /// So many milliseconds in which as many packets come within a limit and over one: what passes over it in each.
    fn offer(&mut self, milliseconds: u64, within: u32, over: u32) -> Vec<u64> {
        let count = |run: &Self, reason| run.bytecode.count(reason);
        let mut passed = Vec::new();
        for _ in 0..milliseconds {
            self.time += 1;
            self.bytecode.set_time(HOUR + self.time * MILLISECOND);
            let before = [Reason::WithinLimit, Reason::WithinCapacity, Reason::OverPackets].map(|of| count(self, of));
            if within != 0 {
                self.bytecode.repeat(&frame(REGULAR), within);
            }
            self.bytecode.repeat(&frame(ADDRESS), over);
            let after = [Reason::WithinLimit, Reason::WithinCapacity, Reason::OverPackets].map(|of| count(self, of));
            assert_eq!(after[0] - before[0], u64::from(within), "within its limit every packet passes");
            assert_eq!(after[1] + after[2] - before[1] - before[2], u64::from(over));
            passed.push(after[1] - before[1]);
        }
        passed
    }
}

/// Together, what passes in any time from here on is no more than the capacity and what the interface may be ahead: its burst, a batch,
/// and a tick of the coarse clock.
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

fn check(algorithm: Algorithm, tick: u64) {
    let name = algorithm.name();
    let mut run = Run::new(algorithm, tick, LOOPBACK);
    // Half of the capacity is used, so the other half is there.
    let over = run.offer(500, 5, 20);
    assert_within_capacity(&over, 5, tick);
    let sum: u64 = over.iter().sum();
    assert!((5 * 490..=5 * 500 + 10 * (BURST + 1 + tick / MILLISECOND)).contains(&sum), "{name}: {sum} in 500 ms");
    // A fifth more than all of it is used within limits.
    let over = run.offer(1_000, 12, 20);
    assert_eq!(over[100..].iter().sum::<u64>(), 0, "{name}: {over:?}");
    // Soon after, there is room as before.
    let over = run.offer(500, 5, 20);
    assert!(over[..100].iter().any(|passed| *passed != 0), "{name}: {over:?}");
    assert!(over[100..].iter().sum::<u64>() >= 5 * 390, "{name}: {over:?}");
    assert_within_capacity(&over, 5, tick);
    // And from having used nothing for long.
    run.time += 10_000;
    let over = run.offer(300, 12, 20);
    assert!(over[0] != 0, "{name}: {over:?}");
    assert_eq!(over[100..].iter().sum::<u64>(), 0, "{name}: {over:?}");
    assert_all_judged(&run.bytecode);
}

#[test]
fn over_an_elastic_limit_packets_pass_by_every_algorithm_while_their_interface_has_room() {
    for algorithm in Algorithm::ALL {
        check(algorithm, 0);
    }
}

#[test]
fn by_the_coarse_clock_room_is_told_as_well() {
    for algorithm in [Algorithm::TokenBucket, Algorithm::SlidingLog] {
        check(algorithm, 4 * MILLISECOND);
    }
}

/// All capacity is used by one source, and no more than that.
#[test]
fn without_other_traffic_one_source_gets_all_of_the_capacity() {
    let mut run = Run::new(Algorithm::TokenBucket, 0, LOOPBACK);
    let over = run.offer(1_000, 0, 50);
    assert_within_capacity(&over, 0, 0);
    let sum: u64 = over.iter().sum();
    assert!((10_000..=10_000 + 10 * (BURST + 1)).contains(&sum), "{sum}");
}

#[test]
fn on_another_interface_than_that_with_the_capacity_nothing_more_passes() {
    let mut run = Run::new(Algorithm::TokenBucket, 0, LOOPBACK + 1);
    assert_eq!(run.offer(100, 1, 20).iter().sum::<u64>(), 0);
    // Neither on the one whose place it has.
    let mut run = Run::new(Algorithm::TokenBucket, 0, LOOPBACK + 256);
    assert_eq!(run.offer(100, 1, 20).iter().sum::<u64>(), 0);
}

#[test]
fn when_its_capacity_is_taken_away_nothing_more_passes() {
    let mut run = Run::new(Algorithm::TokenBucket, 0, LOOPBACK);
    assert!(run.offer(100, 1, 20).iter().sum::<u64>() >= 800);
    capacities::set(&mut run.bytecode.tables, LOOPBACK, 0).unwrap();
    assert_eq!(run.offer(100, 1, 20).iter().sum::<u64>(), 0);
}
