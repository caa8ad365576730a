//! Worked examples from the literature.

use ratelimit_common::limits::{
    algorithm::Algorithm::{self, FixedWindow, LeakyBucket, SlidingLog, SlidingWindow, TokenBucket},
    limit::{Limit, Rate, SECOND},
};
use ratelimit_tests::{Bytecode, Verdict};

use super::{ADDRESS, HOUR, MINUTE, assert_all_decided, frame, limit, load, packets, passed, schedules::draw, source};
use crate::front::{Front, with_and_without_cells};

/// Ten o'clock. Windows start at full hours.
const TEN: u64 = 10 * HOUR;

/// Returns whether packets at these seconds after ten pass.
fn verdicts(bytecode: &mut Bytecode, seconds: &[u64]) -> Vec<bool> {
    let send = |second: &u64| {
        bytecode.set_time(TEN + second * SECOND);
        bytecode.send(&frame(ADDRESS)) == Verdict::Pass
    };
    seconds.iter().map(send).collect()
}

fn three_per_minute_with_packets_at_0_10_35_45_and_60_seconds(front: Front) {
    for (algorithm, expected) in [
        (FixedWindow, [true, true, true, false, true]),
        (SlidingLog, [true, true, true, false, true]),
        // At 10:01:00 the sliding window still covers the whole previous minute with three packets.
        (SlidingWindow, [true, true, true, false, false]),
        // One token returns every twenty seconds: 2, 1.5, 1.75, 1.25 and 1 remain.
        (TokenBucket, [true, true, true, true, true]),
        (LeakyBucket, [true, true, true, true, true]),
    ] {
        let mut bytecode = load(front, limit(algorithm, 3, MINUTE));
        assert_eq!(verdicts(&mut bytecode, &[0, 10, 35, 45, 60]), expected, "{}", algorithm.name());
        assert_all_decided(&bytecode);
    }
}

/// After a third of a minute, three packets of the previous minute weigh two.
fn a_sliding_window_of_three_per_minute_admits_the_next_packet_after_exactly_twenty_seconds(front: Front) {
    let mut bytecode = load(front, limit(SlidingWindow, 3, MINUTE));
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

/// Ten packets arrive at 0:59 and ten at 1:01, with a limit of ten per minute.
fn only_the_fixed_window_admits_two_bursts_around_a_window_boundary(front: Front) {
    for (algorithm, second) in
        [(FixedWindow, 10), (SlidingWindow, 0), (SlidingLog, 0), (TokenBucket, 0), (LeakyBucket, 0)]
    {
        let mut bytecode = load(front, limit(algorithm, 10, MINUTE));
        let burst = |bytecode: &mut Bytecode, seconds: u64| {
            bytecode.set_time(TEN + seconds * SECOND);
            passed(bytecode, &frame(ADDRESS), 15)
        };
        assert_eq!(burst(&mut bytecode, 59), 10, "{}", algorithm.name());
        assert_eq!(burst(&mut bytecode, 61), second, "{}", algorithm.name());
        assert_all_decided(&bytecode);
    }
}

/// After a quarter of the window, three quarters of the previous eight packets count. These six leave four of ten. A
/// nanosecond earlier, slightly more than six count.
fn after_a_quarter_of_a_window_the_previous_window_weighs_three_quarters(front: Front) {
    let mut bytecode = load(front, limit(SlidingWindow, 10, MINUTE));
    for (number, early, expected) in [(1, 0, 4), (2, 1, 3)] {
        let frame = frame(source(number));
        bytecode.set_time(TEN);
        assert_eq!(passed(&bytecode, &frame, 8), 8);
        bytecode.set_time(TEN + MINUTE + MINUTE / 4 - early);
        assert_eq!(passed(&bytecode, &frame, 8), expected, "{early} ns early");
    }
}

/// Returns how many of 25 packets pass at the start of each minute.
fn by_the_minute(front: Front, algorithm: Algorithm, hourly: u64, minutes: u64) -> Vec<u64> {
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
    // The order of the limits makes no difference.
    let [one, other] = both.map(|limit| {
        let mut bytecode = load(front, limit.policy().unwrap());
        let mut definition = draw::define(&limit, 0);
        let minute = |minute: u64| {
            bytecode.set_time(TEN + minute * MINUTE);
            let counted = passed(&bytecode, &frame(ADDRESS), 25);
            let expected: u64 = (0..25).map(|_| u64::from(definition.decide(TEN + minute * MINUTE, &[1, 1]))).sum();
            assert_eq!(counted, expected, "{} in minute {minute}", algorithm.name());
            counted
        };
        let counted: Vec<_> = (0..minutes).map(minute).collect();
        assert_all_decided(&bytecode);
        counted
    });
    assert_eq!(one, other);
    one
}

/// If refused packets used the quota of the hour, it would last only twenty minutes.
fn ten_per_minute_with_500_per_hour_lasts_fifty_minutes(front: Front) {
    let counted = by_the_minute(front, FixedWindow, 500, 120);
    assert_eq!(counted, [vec![10; 50], vec![0; 10], vec![10; 50], vec![0; 10]].concat());
    // A sliding log holds at most 64 packets.
    let counted = by_the_minute(front, SlidingLog, 50, 120);
    assert_eq!(counted, [vec![10; 5], vec![0; 55], vec![10; 5], vec![0; 55]].concat());
}

fn ten_per_minute_with_500_per_hour_holds_for_every_other_algorithm(front: Front) {
    // The burst is 500, and 500 return per hour. Each minute ten packets pass and 8⅓ tokens return, so the quota lasts
    // 300 minutes.
    for algorithm in [TokenBucket, LeakyBucket] {
        let counted = by_the_minute(front, algorithm, 500, 400);
        assert!(counted[..290].iter().all(|count| *count == 10), "{counted:?}");
        assert!(counted[310..].iter().all(|count| (8..=9).contains(count)), "{counted:?}");
        assert!(counted[340..].iter().sum::<u64>() == 500, "{counted:?}");
    }
    // At the start of a minute the whole previous minute counts, so every second minute admits nothing.
    let counted = by_the_minute(front, SlidingWindow, 500, 180);
    assert_eq!(counted[..60], [10, 0].repeat(30));
    for hour in counted.chunks(60) {
        assert!(hour.iter().sum::<u64>() <= 500, "{hour:?}");
    }
    // With a smaller quota, the hour decides.
    let counted = by_the_minute(front, SlidingWindow, 100, 120);
    assert_eq!(counted[..60], [[10, 0].repeat(10), vec![0; 40]].concat());
    assert!(counted[60..].iter().sum::<u64>() <= 100, "{counted:?}");
}

/// Window numbers wrap. The program then takes an old count for that of a recent window, and of the windows beside it.
fn after_2_to_the_14_idle_windows_a_sliding_window_refuses_for_at_most_three_windows(front: Front) {
    const AROUND: u64 = 1 << 14;
    let mut bytecode = load(front, limit(SlidingWindow, 5, SECOND));
    bytecode.set_time(TEN);
    assert_eq!(passed(&bytecode, &frame(ADDRESS), 9), 5);
    let mut refused = Vec::new();
    for window in AROUND - 5..AROUND + 5 {
        bytecode.set_time(TEN + window * SECOND);
        // A refused packet writes nothing, so the next window finds the same state.
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

with_and_without_cells!(
    three_per_minute_with_packets_at_0_10_35_45_and_60_seconds,
    a_sliding_window_of_three_per_minute_admits_the_next_packet_after_exactly_twenty_seconds,
    only_the_fixed_window_admits_two_bursts_around_a_window_boundary,
    after_a_quarter_of_a_window_the_previous_window_weighs_three_quarters,
    ten_per_minute_with_500_per_hour_lasts_fifty_minutes,
    ten_per_minute_with_500_per_hour_holds_for_every_other_algorithm,
    after_2_to_the_14_idle_windows_a_sliding_window_refuses_for_at_most_three_windows,
);
