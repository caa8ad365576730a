//! 64 CPUs on one source, in the worst orders: the bound holds (G1), whatever decides.

mod machine;
mod orders;

use std::{format, vec::Vec};

use ratelimit_common::limits::{
    algorithm::Algorithm,
    limit::{Limit, Rate, SECOND},
};

use machine::{Machine, Stage};
use orders::{Order, Time};

const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const CPUS: usize = 64;

fn limits(bursts: &[u64]) -> Vec<Limit> {
    let rates = [(1, HOUR), (1_000, SECOND), (1_000_000, SECOND), (100_000_000, SECOND)];
    let limit = |(amount, period), burst| {
        let packets = Some(Rate { amount, period });
        Limit { packets, burst: Some(burst), ..Limit::default() }
    };
    rates.into_iter().flat_map(|rate| bursts.iter().map(move |burst| limit(rate, *burst))).collect()
}

/// Checks the bound of each source in every order, with each clock. Where time stands still, all of the burst passes.
fn holds(stage: Stage, limits: &[Limit], packets: usize, sources: usize) {
    holds_on(stage, limits, packets, sources, CPUS, 1);
}

/// Does so with this number of CPUs, and so many different schedules of each order.
fn holds_on(stage: Stage, limits: &[Limit], packets: usize, sources: usize, cpus: usize, seeds: u64) {
    let (mut runs, mut failed) = (0, Vec::new());
    let times = Order::ALL.iter().flat_map(|order| Time::ALL.map(|time| (*order, time)));
    let schedules: Vec<_> = times.flat_map(|(order, time)| (0..seeds).map(move |seed| (order, time, seed))).collect();
    for limit in limits {
        for &(order, time, seed) in &schedules {
            let machine = Machine::new(stage, limit, sources);
            let passed = machine.run(cpus, packets, order, time, seed);
            let most = machine.bound();
            runs += 1;
            // While a bucket is created, a packet of each CPU may be refused, and leave its charge.
            let missing = if stage == Stage::NewSource { 1 + 2 * cpus as u64 } else { 1 };
            let is_full = sources > 1 || time != Time::Stopped || passed[0] + missing >= most;
            if passed.iter().any(|passed| *passed > most) || !is_full {
                failed.push(format!("{limit:?} {order:?} {time:?} {seed}: {passed:?} of {most}"));
            }
        }
    }
    assert!(failed.is_empty(), "{stage:?}: {} of {runs} runs failed\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn a_bucket_admits_its_burst_and_no_packet_too_many() {
    holds(Stage::Bucket, &limits(&[1, 10, 300]), 30, 1);
}

#[test]
fn a_cell_and_its_bucket_admit_their_burst_and_no_packet_too_many() {
    holds(Stage::Cell, &limits(&[1, 2, 100]), 30, 1);
}

/// The cell alone bounds such a source as long as no CPU stops for longer than its burst lasts. Time jumps by some packets,
/// so small bursts are left out where that takes hours.
#[test]
fn a_source_whose_bucket_is_created_meanwhile_is_admitted_no_packet_too_many() {
    let fast = |bursts: &[u64]| {
        let is_fast = |limit: &Limit| limit.packets.is_some_and(|rate| rate.period == SECOND);
        limits(bursts).into_iter().filter(is_fast).collect::<Vec<_>>()
    };
    holds(Stage::NewSource, &limits(&[300]), 30, 1);
    holds(Stage::NewSource, &fast(&[1, 2]), 10, 1);
    for cpus in [3, 5, 8] {
        holds_on(Stage::NewSource, &fast(&[6, 16])[..2], 12, 1, cpus, 8);
    }
    holds_on(Stage::NewSource, &fast(&[10])[..1], 20, 2, 5, 4);
    let second_packets = Some(Rate { amount: 40, period: MINUTE });
    let two = Limit { second_packets, ..fast(&[12])[0] };
    holds_on(Stage::NewSource, &[two], 20, 1, 5, 8);
}

#[test]
fn two_sources_in_a_cell_are_admitted_no_packet_too_many() {
    holds(Stage::Cell, &limits(&[10]), 20, 2);
}

/// The second limit often refuses what the first one has charged.
#[test]
fn charges_that_are_given_back_admit_no_packet_too_many() {
    let limit = |(amount, period)| {
        let (packets, second_packets) = (Rate { amount: 1_000_000, period: SECOND }, Rate { amount, period });
        Limit { packets: Some(packets), second_packets: Some(second_packets), burst: Some(3), ..Limit::default() }
    };
    let limits = [(40, MINUTE), (1_000, SECOND), (900_000, SECOND)].map(limit);
    for sources in [1, 2] {
        holds(Stage::Bucket, &limits, 20, sources);
        holds(Stage::Cell, &limits, 20, sources);
    }
}

#[test]
fn windows_and_logs_admit_their_limit_and_no_packet_too_many() {
    for algorithm in [Algorithm::FixedWindow, Algorithm::SlidingWindow, Algorithm::SlidingLog] {
        let stage = if algorithm == Algorithm::SlidingLog { Stage::Log } else { Stage::Window };
        let limit = |amount| Limit { packets: Some(Rate { amount, period: HOUR }), algorithm, ..Limit::default() };
        holds(stage, &[1, 10, 60].map(limit), 10, 1);
    }
}
