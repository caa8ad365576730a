//! What one algorithm has written is never read by another (G7), while packets are judged.

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

/// Of the algorithm that is changed from, and of the other.
const LIMITS: [u64; 2] = [20, 10];

/// Every ordered pair of algorithms that do not count by the same word in the same way.
fn pairs() -> impl Iterator<Item = [Algorithm; 2]> {
    let all = Algorithm::ALL.into_iter().flat_map(|one| Algorithm::ALL.map(|other| [one, other]));
    // A leaky bucket as a meter is the token bucket.
    all.filter(|[one, other]| one != other && !(one.is_bucket() && other.is_bucket()))
}

#[test]
fn who_has_used_up_one_limit_is_new_to_the_next_by_another_algorithm_and_back_again() {
    for [one, other] in pairs() {
        let [first, second] = [limit(one, LIMITS[0], HOUR), limit(other, LIMITS[1], HOUR)];
        let mut bytecode = load(first);
        bytecode.set_time(HOUR);
        let frame = frame(ADDRESS);
        let name = format!("{} to {}", one.name(), other.name());
        assert_eq!(passed(&bytecode, &frame, 50), LIMITS[0], "{name}");
        bytecode.set("default", second);
        assert_eq!(passed(&bytecode, &frame, 50), LIMITS[1], "{name}");
        assert_eq!(bytecode.reason(&frame), Reason::OverPackets, "{name}");
        bytecode.set("default", first);
        let expected = if one == SlidingLog || other == SlidingLog {
            // A log is kept apart, so that either finds what it has written itself.
            0
        } else if one.is_bucket() && crate::FRONT {
            // The cell, which no other algorithm writes, knows what it has admitted: what is new is what its bucket disposes of.
            first.packets.rest() / first.packets.cost_of(1)
        } else {
            LIMITS[0]
        };
        assert_eq!(passed(&bytecode, &frame, 50), expected, "{name} and back");
    }
}

/// By the new limit there is room again after a tenth of a second. By the old one there was none for an hour.
#[test]
fn nobody_is_refused_for_longer_than_the_new_limit_says() {
    for [one, other] in pairs() {
        let mut bytecode = load(limit(one, LIMITS[0], HOUR));
        bytecode.set_time(HOUR);
        let frame = frame(ADDRESS);
        assert_eq!(passed(&bytecode, &frame, 50), LIMITS[0]);
        bytecode.set("default", limit(other, LIMITS[1], SECOND));
        assert_eq!(passed(&bytecode, &frame, 50), LIMITS[1]);
        // By a sliding window the second before weighs one less after that tenth.
        let wait = if other == Algorithm::SlidingWindow || !other.is_bucket() { SECOND } else { 0 };
        bytecode.set_time(HOUR + wait + SECOND / 10);
        let name = format!("{} to {}", one.name(), other.name());
        assert_eq!(bytecode.reason(&frame), Reason::WithinLimit, "{name}");
    }
}

#[test]
fn token_bucket_and_leaky_bucket_are_one_meter() {
    for [one, other] in
        [[Algorithm::TokenBucket, Algorithm::LeakyBucket], [Algorithm::LeakyBucket, Algorithm::TokenBucket]]
    {
        let mut bytecode = load(limit(one, LIMITS[0], HOUR));
        bytecode.set_time(HOUR);
        assert_eq!(passed(&bytecode, &frame(ADDRESS), 50), LIMITS[0]);
        bytecode.set("default", limit(other, LIMITS[0], HOUR));
        assert_eq!(passed(&bytecode, &frame(ADDRESS), 50), 0);
        bytecode.set_time(HOUR + HOUR / LIMITS[0]);
        assert_eq!(passed(&bytecode, &frame(ADDRESS), 50), 1);
    }
}

/// Sends from three threads while the default changes once, and returns how many packets have passed.
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
        for _ in 0..3 {
            scope.spawn(|| {
                let frame = frame(address);
                while !done.load(Ordering::Relaxed) {
                    let _ = runner.repeat(&frame, 20);
                    sent.fetch_add(20, Ordering::Relaxed);
                }
            });
        }
        let wait_for = |more: u64| {
            let until = sent.load(Ordering::Relaxed) + more;
            while sent.load(Ordering::Relaxed) < until {
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

#[test]
fn while_others_send_a_change_of_algorithm_lets_no_more_pass_than_both_limits() {
    let mut number = 0;
    for [one, other] in pairs() {
        let [first, second] = [limit(one, LIMITS[0], HOUR), limit(other, LIMITS[1], SECOND)];
        let mut bytecode = load(first);
        for round in 0..25 {
            bytecode.set_time(HOUR);
            bytecode.set("default", first);
            number += 1;
            let passes = passed_while_changing(&mut bytecode, source(number), second);
            let name = format!("{} to {}, round {round}", one.name(), other.name());
            assert_eq!(passes, LIMITS[0] + LIMITS[1], "{name}");
            // Two seconds later nothing of what anybody has written counts.
            bytecode.set_time(HOUR + 2 * SECOND);
            assert_eq!(passed(&bytecode, &frame(source(number)), 50), LIMITS[1], "{name}");
        }
        assert_eq!(bytecode.count(Reason::Contended), 0);
    }
}
