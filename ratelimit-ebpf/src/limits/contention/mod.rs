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

const HOUR: u64 = 3_600 * SECOND;
const CPUS: usize = 64;

/// Rates from one packet per hour to 100 million per second.
const RATES: [Rate; 4] = [
    Rate { amount: 1, period: HOUR },
    Rate { amount: 1_000, period: SECOND },
    Rate { amount: 1_000_000, period: SECOND },
    Rate { amount: 100_000_000, period: SECOND },
];
/// Packets of the burst.
const BURSTS: [u64; 4] = [1, 10, 100, 900];

fn limits() -> Vec<Limit> {
    let limit = |(packets, burst)| Limit { packets: Some(packets), burst: Some(burst), ..Limit::default() };
    RATES.into_iter().flat_map(|rate| BURSTS.map(|burst| limit((rate, burst)))).collect()
}

/// Checks the bound in every order, with each clock.
fn holds(stage: Stage, limits: &[Limit], packets: usize) {
    let (mut runs, mut failed) = (0, Vec::new());
    for limit in limits {
        for order in Order::ALL {
            for time in Time::ALL {
                let machine = Machine::new(stage, limit);
                let passed = machine.run(CPUS, packets, order, time);
                let most = machine.bound();
                runs += 1;
                if passed > most {
                    let (rate, burst) = (limit.packets.unwrap(), limit.burst);
                    failed.push(format!("{rate:?} {burst:?} {order:?} {time:?}: {passed} of {most}"));
                }
            }
        }
    }
    assert!(failed.is_empty(), "{stage:?}: {} of {runs} runs admitted too many\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn a_bucket_admits_no_packet_too_many() {
    holds(Stage::Bucket, &limits(), 30);
}

#[test]
fn a_cell_and_its_buckets_admit_no_packet_too_many() {
    holds(Stage::Cell, &limits(), 30);
}

#[test]
fn windows_and_logs_admit_no_packet_too_many() {
    for algorithm in [Algorithm::FixedWindow, Algorithm::SlidingWindow, Algorithm::SlidingLog] {
        let stage = if algorithm == Algorithm::SlidingLog { Stage::Log } else { Stage::Window };
        let limit = |amount| Limit { packets: Some(Rate { amount, period: HOUR }), algorithm, ..Limit::default() };
        holds(stage, &[1, 10, 60].map(limit), 10);
    }
}
