//! The literature's worked examples.

use ratelimit_common::limits::{
    algorithm::Algorithm::{self, FixedWindow, LeakyBucket, SlidingLog, SlidingWindow, TokenBucket},
    limit::{Limit, Rate, SECOND},
};
use ratelimit_tests::{Bytecode, Verdict};

use super::{ADDRESS, HOUR, MINUTE, assert_all_judged, draw, frame, limit, load, packets, passed, source};

/// Ten o'clock; windows begin with the hours of a day.
const TEN: u64 = 10 * HOUR;

/// Whether each packet passes that comes so many seconds after ten.
fn verdicts(bytecode: &mut Bytecode, seconds: &[u64]) -> Vec<bool> {
    let send = |second: &u64| {
        bytecode.set_time(TEN + second * SECOND);
        bytecode.send(&frame(ADDRESS)) == Verdict::Pass
    };
    seconds.iter().map(send).collect()
}

#[test]
fn three_requests_a_minute_at_0_10_35_45_and_60_seconds() {
    for (algorithm, expected) in [
        (FixedWindow, [true, true, true, false, true]),
        (SlidingLog, [true, true, true, false, true]),
        // At 10:01:00 the last length of a window still covers all of the minute before: three, and one more is over.
        (SlidingWindow, [true, true, true, false, false]),
        // A token comes back every twenty seconds: 2, 1.5, 1.75, 1.25 and 1 are left.
        (TokenBucket, [true, true, true, true, true]),
        (LeakyBucket, [true, true, true, true, true]),
    ] {
        let mut bytecode = load(limit(algorithm, 3, MINUTE));
        assert_eq!(verdicts(&mut bytecode, &[0, 10, 35, 45, 60]), expected, "{}", algorithm.name());
        assert_all_judged(&bytecode);
    }
}

/// Three weigh two when a third of the minute is over.
#[test]
fn a_sliding_window_of_three_admits_the_next_one_at_twenty_seconds_and_no_sooner() {
    let mut bytecode = load(limit(SlidingWindow, 3, MINUTE));
    assert_eq!(verdicts(&mut bytecode, &[0, 10, 35]), [true; 3]);
    for (time, expected) in [
        (MINUTE, Verdict::Drop),
        (MINUTE + 20 * SECOND - 1, Verdict::Drop),
        (MINUTE + 20 * SECOND, Verdict::Pass),
        (MINUTE + 40 * SECOND - 1, Verdict::Drop),
        (MINUTE + 40 * SECOND, Verdict::Pass),
    ] {
        bytecode.set_time(TEN + time);
        assert_eq!(bytecode.send(&frame(ADDRESS)), expected, "{time} ns");
    }
}

/// A limit of ten a minute, and ten at 0:59 and at 1:01 each.
#[test]
fn two_bursts_around_the_edge_of_a_window_pass_the_fixed_one_alone() {
    for (algorithm, second) in
        [(FixedWindow, 10), (SlidingWindow, 0), (SlidingLog, 0), (TokenBucket, 0), (LeakyBucket, 0)]
    {
        let mut bytecode = load(limit(algorithm, 10, MINUTE));
        let burst = |bytecode: &mut Bytecode, seconds: u64| {
            bytecode.set_time(TEN + seconds * SECOND);
            passed(bytecode, &frame(ADDRESS), 15)
        };
        assert_eq!(burst(&mut bytecode, 59), 10, "{}", algorithm.name());
        assert_eq!(burst(&mut bytecode, 61), second, "{}", algorithm.name());
        assert_all_judged(&bytecode);
    }
}

/// With a quarter of the window over, three quarters of the one before count: of eight, six, which leaves four of ten. A nanosecond sooner
/// they count as a little more than six.
#[test]
fn a_quarter_into_a_window_the_one_before_weighs_three_quarters() {
    let mut bytecode = load(limit(SlidingWindow, 10, MINUTE));
    for (number, early, expected) in [(1, 0, 4), (2, 1, 3)] {
        let frame = frame(source(number));
        bytecode.set_time(TEN);
        assert_eq!(passed(&bytecode, &frame, 8), 8);
        bytecode.set_time(TEN + MINUTE + MINUTE / 4 - early);
        assert_eq!(passed(&bytecode, &frame, 8), expected, "{early} ns early");
    }
}

/// What passes of 25 packets at the beginning of each minute.
fn by_the_minute(algorithm: Algorithm, hourly: u64, minutes: u64) -> Vec<u64> {
    let quota = Rate { amount: hourly, period: HOUR };
    let burst = algorithm.is_bucket().then_some(10);
    let both = [
        Limit { second_packets: Some(quota), burst, ..packets(algorithm, 10, MINUTE) },
        Limit {
            second_packets: packets(algorithm, 10, MINUTE).packets,
            burst: algorithm.is_bucket().then_some(hourly),
            ..packets(algorithm, hourly, HOUR)
        },
    ];
    // In whatever order the limits are given.
    let [one, other] = both.map(|limit| {
        let mut bytecode = load(limit.policy().unwrap());
        let mut definition = draw::define(&limit, 0);
        let minute = |minute: u64| {
            bytecode.set_time(TEN + minute * MINUTE);
            let counted = passed(&bytecode, &frame(ADDRESS), 25);
            let expected: u64 = (0..25).map(|_| u64::from(definition.judge(TEN + minute * MINUTE, &[1, 1]))).sum();
            assert_eq!(counted, expected, "{} in minute {minute}", algorithm.name());
            counted
        };
        let counted: Vec<_> = (0..minutes).map(minute).collect();
        assert_all_judged(&bytecode);
        counted
    });
    assert_eq!(one, other);
    one
}

/// If refused packets spent the quota of the hour, it would be gone after twenty minutes.
#[test]
fn five_hundred_an_hour_with_ten_a_minute_are_fifty_minutes_of_ten() {
    let counted = by_the_minute(FixedWindow, 500, 120);
    assert_eq!(counted, [vec![10; 50], vec![0; 10], vec![10; 50], vec![0; 10]].concat());
    // A log has 64 places.
    let counted = by_the_minute(SlidingLog, 50, 120);
    assert_eq!(counted, [vec![10; 5], vec![0; 55], vec![10; 5], vec![0; 55]].concat());
}

#[test]
fn five_hundred_an_hour_with_ten_a_minute_hold_by_every_other_algorithm_too() {
    // 500 at first, and 500 that come back within the hour; each minute ten come, and 8⅓ of them come back: the quota lasts for 300 minutes.
    for algorithm in [TokenBucket, LeakyBucket] {
        let counted = by_the_minute(algorithm, 500, 400);
        assert!(counted[..290].iter().all(|count| *count == 10), "{counted:?}");
        assert!(counted[310..].iter().all(|count| (8..=9).contains(count)), "{counted:?}");
        assert!(counted[340..].iter().sum::<u64>() == 500, "{counted:?}");
    }
    // At the beginning of a minute all of the one before counts, so every other has nothing.
    let counted = by_the_minute(SlidingWindow, 500, 180);
    assert_eq!(counted[..60], [10, 0].repeat(30));
    for hour in counted.chunks(60) {
        assert!(hour.iter().sum::<u64>() <= 500, "{hour:?}");
    }
    // With less than that an hour, the hour decides.
    let counted = by_the_minute(SlidingWindow, 100, 120);
    assert_eq!(counted[..60], [[10, 0].repeat(10), vec![0; 40]].concat());
    assert!(counted[60..].iter().sum::<u64>() <= 100, "{counted:?}");
}

/// Window numbers go around: then its old count, of a window that was as many ago, is found once more, and of those beside it.
#[test]
fn who_was_silent_for_exactly_2_to_the_14_sliding_windows_is_refused_for_three_at_most() {
    const AROUND: u64 = 1 << 14;
    let mut bytecode = load(limit(SlidingWindow, 5, SECOND));
    bytecode.set_time(TEN);
    assert_eq!(passed(&bytecode, &frame(ADDRESS), 9), 5);
    let mut refused = Vec::new();
    for window in AROUND - 5..AROUND + 5 {
        bytecode.set_time(TEN + window * SECOND);
        // One that is refused writes nothing, so the next window finds the same.
        if bytecode.send(&frame(ADDRESS)) == Verdict::Drop {
            refused.push(window);
        } else {
            bytecode.forget();
            bytecode.set_time(TEN);
            assert_eq!(passed(&bytecode, &frame(ADDRESS), 9), 5);
        }
    }
    let expected: Vec<_> = (AROUND - 1..=AROUND + 1).collect();
    assert_eq!(refused, expected);
}
