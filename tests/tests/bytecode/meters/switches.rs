//! A switch of algorithm under load: no algorithm reads the state of another (G7).

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
};

use ratelimit_common::{
    limits::{
        algorithm::Algorithm::{self, SlidingLog},
        limit::SECOND,
    },
    reason::Reason,
};
use ratelimit_tests::{Bytecode, set_rule};

use super::{ADDRESS, HOUR, frame, limit, load, passed, source};
use crate::front::{Front, with_and_without_cells};

/// Limits of the algorithm before and after the switch.
const LIMITS: [u64; 2] = [20, 10];

/// Returns ordered pairs of algorithms with different state. Without cells, only those with the token bucket: the others
/// run the same code in both cases.
fn pairs(front: Front) -> impl Iterator<Item = [Algorithm; 2]> {
    let all = Algorithm::ALL.into_iter().flat_map(|one| Algorithm::ALL.map(|other| [one, other]));
    // Token bucket and leaky bucket share one state.
    let pairs = all.filter(|[one, other]| one != other && !(one.is_bucket() && other.is_bucket()));
    pairs.filter(move |pair| front.is_on() || pair.contains(&Algorithm::TokenBucket))
}

fn a_switch_of_algorithm_starts_with_an_empty_state_in_both_directions(front: Front) {
    for [one, other] in pairs(front) {
        let [first, second] = [limit(one, LIMITS[0], HOUR), limit(other, LIMITS[1], HOUR)];
        let mut bytecode = load(front, first);
        bytecode.set_time(HOUR);
        let frame = frame(ADDRESS);
        let name = format!("{} to {}", one.name(), other.name());
        assert_eq!(passed(&bytecode, &frame, 50), LIMITS[0], "{name}");
        bytecode.set("default", second);
        assert_eq!(passed(&bytecode, &frame, 50), LIMITS[1], "{name}");
        assert_eq!(bytecode.reason(&frame), Reason::OverPackets, "{name}");
        bytecode.set("default", first);
        let expected = match (one, other) {
            // The sliding log has its own map, so it finds its earlier state.
            (SlidingLog, _) => 0,
            // So does the bucket. The debt of the cell ends with the last limit that could have made it.
            (_, SlidingLog) if one.is_bucket() && front.is_on() => {
                LIMITS[0] - first.packets.rest() / first.packets.cost_of(1)
            }
            (_, SlidingLog) => 0,
            _ => LIMITS[0],
        };
        assert_eq!(passed(&bytecode, &frame, 50), expected, "{name} and back");
    }
}

/// The new limit admits a packet after a tenth of a second, the old one only after an hour.
fn after_a_switch_refusals_last_no_longer_than_the_new_limit_requires(front: Front) {
    for [one, other] in pairs(front) {
        let mut bytecode = load(front, limit(one, LIMITS[0], HOUR));
        bytecode.set_time(HOUR);
        let frame = frame(ADDRESS);
        assert_eq!(passed(&bytecode, &frame, 50), LIMITS[0]);
        bytecode.set("default", limit(other, LIMITS[1], SECOND));
        assert_eq!(passed(&bytecode, &frame, 50), LIMITS[1]);
        // In a sliding window, the previous second weighs one packet less after that tenth.
        let wait = if other == Algorithm::SlidingWindow || !other.is_bucket() { SECOND } else { 0 };
        bytecode.set_time(HOUR + wait + SECOND / 10);
        let name = format!("{} to {}", one.name(), other.name());
        assert_eq!(bytecode.reason(&frame), Reason::WithinLimit, "{name}");
    }
}

fn token_bucket_and_leaky_bucket_share_one_state(front: Front) {
    for [one, other] in
        [[Algorithm::TokenBucket, Algorithm::LeakyBucket], [Algorithm::LeakyBucket, Algorithm::TokenBucket]]
    {
        let mut bytecode = load(front, limit(one, LIMITS[0], HOUR));
        bytecode.set_time(HOUR);
        assert_eq!(passed(&bytecode, &frame(ADDRESS), 50), LIMITS[0]);
        bytecode.set("default", limit(other, LIMITS[0], HOUR));
        assert_eq!(passed(&bytecode, &frame(ADDRESS), 50), 0);
        bytecode.set_time(HOUR + HOUR / LIMITS[0]);
        assert_eq!(passed(&bytecode, &frame(ADDRESS), 50), 1);
    }
}

/// Sends from three threads while the default limit changes once. Returns how many packets have passed.
fn passed_while_changing(
    bytecode: &mut Bytecode,
    address: [u8; 4],
    to: ratelimit_common::limits::policy::Policy,
) -> u64 {
    let within = |bytecode: &Bytecode| bytecode.count(Reason::WithinLimit);
    let before = within(bytecode);
    let (done, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let (runner, tables) = bytecode.apart();
    thread::scope(|scope| {
        let send = || {
            let frame = frame(address);
            while !done.load(Ordering::Relaxed) {
                let _ = runner.repeat(&frame, 20);
                sent.fetch_add(20, Ordering::Relaxed);
            }
        };
        let senders = [(); 3].map(|()| scope.spawn(send));
        let wait_for = |more: u64| {
            let until = sent.load(Ordering::Relaxed) + more;
            while sent.load(Ordering::Relaxed) < until {
                assert!(!senders.iter().any(thread::ScopedJoinHandle::is_finished), "a sender has ended");
                thread::yield_now();
            }
        };
        wait_for(200);
        set_rule(tables, "default", to);
        wait_for(200);
        done.store(true, Ordering::Relaxed);
    });
    within(bytecode) - before
}

fn a_switch_under_load_admits_at_most_the_sum_of_both_limits(front: Front) {
    let mut number = 0;
    for [one, other] in pairs(front) {
        let [first, second] = [limit(one, LIMITS[0], HOUR), limit(other, LIMITS[1], SECOND)];
        let mut bytecode = load(front, first);
        for round in 0..8 {
            bytecode.set_time(HOUR);
            bytecode.set("default", first);
            number += 1;
            let passes = passed_while_changing(&mut bytecode, source(number), second);
            let name = format!("{} to {}, round {round}", one.name(), other.name());
            assert_eq!(passes, LIMITS[0] + LIMITS[1], "{name}");
            // Two seconds later no earlier packet counts.
            bytecode.set_time(HOUR + 2 * SECOND);
            assert_eq!(passed(&bytecode, &frame(source(number)), 50), LIMITS[1], "{name}");
        }
        assert_eq!(bytecode.count(Reason::Contended), 0);
    }
}

with_and_without_cells!(
    a_switch_of_algorithm_starts_with_an_empty_state_in_both_directions,
    after_a_switch_refusals_last_no_longer_than_the_new_limit_requires,
    token_bucket_and_leaky_bucket_share_one_state,
    a_switch_under_load_admits_at_most_the_sum_of_both_limits,
);
