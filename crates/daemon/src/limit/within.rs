//! Whether one limit admits no more than another one.

use ratelimit_common::limits::limit::{Limit, Rate};

/// Returns whether a limit admits, over any interval, at most as much as another one. It may say no where it cannot tell.
pub fn is_within(limit: &Limit, other: &Limit) -> bool {
    let rates = |limit: &Limit| [limit.packets, limit.second_packets].into_iter().flatten().collect::<Vec<_>>();
    let (own, others) = (rates(limit), rates(other));
    if others.is_empty() && other.bytes.is_none() {
        return true;
    }
    let are_buckets = limit.algorithm.is_bucket() && other.algorithm.is_bucket();
    let is_slower = |one: &Rate, other: &Rate| {
        let amounts =
            u128::from(one.amount) * u128::from(other.period) <= u128::from(other.amount) * u128::from(one.period);
        // Windows of another length admit other bursts.
        amounts && (are_buckets || one.period == other.period)
    };
    let is_met = |rate: &Rate| own.iter().any(|own| is_slower(own, rate));
    let is_met_in_bytes = other.bytes.is_none_or(|other| limit.bytes.is_some_and(|bytes| is_slower(&bytes, &other)));
    // The burst of a second limit of packets is what it allows in its own unit of time.
    let bursts = other.burst.into_iter().chain(other.second_packets.map(|second| second.amount));
    let is_as_short = || limit.burst.is_some_and(|burst| bursts.min().is_none_or(|most| burst <= most));
    let is_alike = if are_buckets { is_as_short() } else { limit.algorithm == other.algorithm };
    is_alike && is_met_in_bytes && others.iter().all(is_met)
}

#[cfg(test)]
mod tests {
    use ratelimit_common::limits::algorithm::Algorithm;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn packets(amount: u64, seconds: u64, burst: u64) -> Limit {
        let packets = Some(Rate { amount, period: seconds * SECOND });
        Limit { packets, burst: Some(burst), ..Limit::default() }
    }

    #[test]
    fn a_limit_within_another_has_no_higher_rate_and_no_longer_burst() {
        let own = packets(100, 1, 100);
        for (limit, expected) in [
            (packets(100, 1, 100), true),
            (packets(10, 1, 10), true),
            (packets(600, 60, 100), true),
            (packets(101, 1, 10), false),
            (packets(10, 1, 101), false),
            (packets(6_001, 60, 100), false),
            (Limit { packets: None, bytes: Some(Rate { amount: 1, period: SECOND }), ..own }, false),
            (Limit { algorithm: Algorithm::LeakyBucket, ..own }, true),
            (Limit { algorithm: Algorithm::FixedWindow, burst: None, ..own }, false),
        ] {
            assert_eq!(is_within(&limit, &own), expected, "{limit:?}");
            assert!(is_within(&limit, &Limit::default()));
        }
        assert!(!is_within(&Limit::default(), &own));
    }

    #[test]
    fn each_part_of_the_other_limit_has_to_be_met() {
        let of_bytes = |limit, amount| Limit { bytes: Some(Rate { amount, period: SECOND }), ..limit };
        let own = of_bytes(packets(100, 1, 100), 1_000);
        assert!(is_within(&of_bytes(packets(100, 1, 100), 1_000), &own));
        assert!(!is_within(&packets(100, 1, 100), &own));
        assert!(!is_within(&of_bytes(packets(100, 1, 100), 1_001), &own));
        let second = |limit, amount| Limit { second_packets: Some(Rate { amount, period: 3_600 * SECOND }), ..limit };
        let own = second(packets(10, 60, 10), 50);
        assert!(is_within(&second(packets(10, 60, 10), 50), &own) && is_within(&packets(40, 3_600, 10), &own));
        assert!(!is_within(&packets(10, 60, 10), &own) && !is_within(&second(packets(10, 60, 10), 51), &own));
        assert!(!is_within(&packets(40, 3_600, 11), &own));
        let window = |limit| Limit { algorithm: Algorithm::SlidingWindow, burst: None, ..limit };
        assert!(is_within(&window(packets(9, 60, 1)), &window(packets(10, 60, 1))));
        assert!(!is_within(&window(packets(9, 1, 1)), &window(packets(10, 60, 1))));
        assert!(!is_within(&window(packets(9, 120, 1)), &window(packets(10, 60, 1))));
    }
}
