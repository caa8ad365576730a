//! Soft limits: a percentage above the limit still passes.

use ratelimit_common::{
    limits::{algorithm::Algorithm, limit::SECOND, policy::Policy},
    reason::Reason,
};
use ratelimit_dataplane::{program::loader::Settings, sys::host};
use ratelimit_tests::Bytecode;

use crate::{
    front::{Front, with_and_without_cells},
    meters::{ADDRESS, HOUR, MINUTE, assert_all_decided, frame, limit},
};

const LIMIT: u64 = 50;

fn load(front: Front, algorithm: Algorithm, soft: u8) -> Bytecode {
    let mut bytecode = Bytecode::with(Settings { soft: true, lanes: true, ..crate::meters::settings(front) });
    bytecode.set("default", Policy { soft, ..limit(algorithm, LIMIT, MINUTE) });
    bytecode
}

/// Sends packets at this time. Returns how many are within the limit, within the soft allowance, and over both.
fn offer(bytecode: &mut Bytecode, time: u64, times: u32) -> [u64; 3] {
    bytecode.set_time(time);
    const REASONS: [Reason; 3] = [Reason::WithinLimit, Reason::WithinSoft, Reason::OverPackets];
    let before = REASONS.map(|reason| bytecode.count(reason));
    bytecode.repeat(&frame(ADDRESS), times);
    let after = REASONS.map(|reason| bytecode.count(reason));
    assert_all_decided(bytecode);
    let counted = [0, 1, 2].map(|index| after[index] - before[index]);
    assert_eq!(counted.iter().sum::<u64>(), u64::from(times));
    counted
}

fn exactly_a_tenth_more_passes_with_every_algorithm(front: Front) {
    for algorithm in Algorithm::ALL {
        let mut bytecode = load(front, algorithm, 10);
        assert_eq!(offer(&mut bytecode, HOUR, 50), [50, 0, 0], "{}", algorithm.name());
        assert_eq!(offer(&mut bytecode, HOUR, 20), [0, 5, 15], "{}", algorithm.name());
        // After two windows, or after the burst has returned, the same passes again.
        assert_eq!(offer(&mut bytecode, HOUR + 2 * MINUTE, 100), [50, 5, 45], "{}", algorithm.name());
    }
}

fn each_window_admits_a_tenth_more(front: Front) {
    for algorithm in [Algorithm::FixedWindow, Algorithm::SlidingLog] {
        let mut bytecode = load(front, algorithm, 10);
        for window in 0..20 {
            let counted = offer(&mut bytecode, HOUR + window * MINUTE, 100);
            assert_eq!(counted, [50, 5, 45], "{} in window {window}", algorithm.name());
        }
    }
}

/// A source that offers far more all the time gets its rate and a tenth of it.
fn buckets_admit_a_tenth_more_than_their_rate(front: Front) {
    for algorithm in [Algorithm::TokenBucket, Algorithm::LeakyBucket] {
        let mut bytecode = load(front, algorithm, 10);
        let [within, soft, _] = offer(&mut bytecode, HOUR, 100);
        let mut sum = [within, soft];
        // Twenty packets every ten seconds, for an hour.
        for step in 1..=360 {
            let [within, soft, _] = offer(&mut bytecode, HOUR + step * 10 * SECOND, 20);
            sum = [sum[0] + within, sum[1] + soft];
        }
        assert_eq!(sum, [50 + 60 * 50, 5 + 60 * 5], "{}", algorithm.name());
    }
}

/// The allowance is no multiple of the packet interval: its first packet returns after 60 s / 3.5.
fn the_soft_allowance_returns_at_its_own_rate(front: Front) {
    for algorithm in [Algorithm::TokenBucket, Algorithm::LeakyBucket] {
        let mut bytecode = load(front, algorithm, 7);
        // 3.5 of 50, rounded up.
        assert_eq!(offer(&mut bytecode, HOUR, 100), [50, 4, 46], "{}", algorithm.name());
        let back = MINUTE * 10 / 35;
        // Until then the limit itself admits packets and refuses some.
        let within = offer(&mut bytecode, HOUR + back - SECOND / 10, 100);
        assert_eq!(within[1], 0, "{}", algorithm.name());
        assert_eq!(offer(&mut bytecode, HOUR + back + 1_000, 100)[1], 1, "{}", algorithm.name());
    }
}

/// Limits get their lane before the clock of the test begins, which can be earlier than that of the machine.
#[test]
fn a_lane_owes_nothing_at_any_time_of_a_test() {
    let started = host::now();
    let mut bytecode = load(Front::On, Algorithm::TokenBucket, 10);
    assert_eq!(offer(&mut bytecode, started - SECOND, 100), [50, 5, 45]);
}

with_and_without_cells!(
    exactly_a_tenth_more_passes_with_every_algorithm,
    each_window_admits_a_tenth_more,
    buckets_admit_a_tenth_more_than_their_rate,
    the_soft_allowance_returns_at_its_own_rate,
);
