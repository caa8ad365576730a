//! Soft limits: hundredths that still pass above the limit.

use ratelimit::dataplane::program::loader::Settings;
use ratelimit_common::{
    limits::{algorithm::Algorithm, limit::SECOND, policy::Policy},
    reason::Reason,
};
use ratelimit_tests::Bytecode;

use super::{ADDRESS, HOUR, MINUTE, assert_all_judged, frame, limit};

const LIMIT: u64 = 50;

fn load(algorithm: Algorithm, soft: u8) -> Bytecode {
    let mut bytecode = Bytecode::with(Settings { soft: true, ..super::settings() });
    bytecode.set("default", Policy { soft, ..limit(algorithm, LIMIT, MINUTE) });
    bytecode
}

/// Sends so many packets at a time: how many are within the limit, within what is soft, and over.
fn offer(bytecode: &mut Bytecode, time: u64, times: u32) -> [u64; 3] {
    bytecode.set_time(time);
    const REASONS: [Reason; 3] = [Reason::WithinLimit, Reason::WithinSoft, Reason::OverPackets];
    let before = REASONS.map(|reason| bytecode.count(reason));
    bytecode.repeat(&frame(ADDRESS), times);
    let after = REASONS.map(|reason| bytecode.count(reason));
    assert_all_judged(bytecode);
    let counted = [0, 1, 2].map(|index| after[index] - before[index]);
    assert_eq!(counted.iter().sum::<u64>(), u64::from(times));
    counted
}

#[test]
fn exactly_a_tenth_more_passes_by_every_algorithm() {
    for algorithm in Algorithm::ALL {
        let mut bytecode = load(algorithm, 10);
        assert_eq!(offer(&mut bytecode, HOUR, 50), [50, 0, 0], "{}", algorithm.name());
        assert_eq!(offer(&mut bytecode, HOUR, 20), [0, 5, 15], "{}", algorithm.name());
        // And once more when all of that is over, two windows or a burst later.
        assert_eq!(offer(&mut bytecode, HOUR + 2 * MINUTE, 100), [50, 5, 45], "{}", algorithm.name());
    }
}

#[test]
fn each_window_has_its_own_tenth() {
    for algorithm in [Algorithm::FixedWindow, Algorithm::SlidingLog] {
        let mut bytecode = load(algorithm, 10);
        for window in 0..20 {
            let counted = offer(&mut bytecode, HOUR + window * MINUTE, 100);
            assert_eq!(counted, [50, 5, 45], "{} in window {window}", algorithm.name());
        }
    }
}

/// A source that offers far more all the time gets its rate and a tenth of that.
#[test]
fn buckets_have_a_tenth_of_their_rate_too() {
    for algorithm in [Algorithm::TokenBucket, Algorithm::LeakyBucket] {
        let mut bytecode = load(algorithm, 10);
        let [within, soft, _] = offer(&mut bytecode, HOUR, 100);
        let mut sum = [within, soft];
        // For an hour, twenty packets each ten seconds.
        for step in 1..=360 {
            let [within, soft, _] = offer(&mut bytecode, HOUR + step * 10 * SECOND, 20);
            sum = [sum[0] + within, sum[1] + soft];
        }
        assert_eq!(sum, [50 + 60 * 50, 5 + 60 * 5], "{}", algorithm.name());
    }
}

/// One that is no multiple of the packets' distance, by the nanosecond: the first packet of the allowance comes back after 60 s / 3.5.
#[test]
fn what_is_soft_comes_back_on_time_and_not_with_the_limit() {
    for algorithm in [Algorithm::TokenBucket, Algorithm::LeakyBucket] {
        let mut bytecode = load(algorithm, 7);
        // 3.5 of 50, rounded up.
        assert_eq!(offer(&mut bytecode, HOUR, 100), [50, 4, 46], "{}", algorithm.name());
        let back = MINUTE * 10 / 35;
        // Up to then packets come that the limit itself admits, and some that it refuses.
        let within = offer(&mut bytecode, HOUR + back - SECOND / 10, 100);
        assert_eq!(within[1], 0, "{}", algorithm.name());
        assert_eq!(offer(&mut bytecode, HOUR + back + 1_000, 100)[1], 1, "{}", algorithm.name());
    }
}
