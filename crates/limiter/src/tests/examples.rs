//! The worked examples of classic designs of rate limiters.

use super::*;

/// 10:00:00 of some day.
const TEN: u64 = 20_000 * 24 * HOUR + 10 * HOUR;

#[test]
fn three_per_minute_by_a_fixed_window_begin_again_with_the_minute() {
    let limiter = by_user([limit(3, MINUTE, Algorithm::FixedWindow)]);
    for second in [0, 10, 50] {
        assert!(allows(&limiter, TEN + second * SECOND));
    }
    assert_eq!(wait(&limiter, TEN + 55 * SECOND), 5_000);
    assert!(allows(&limiter, TEN + 60 * SECOND));
}

#[test]
fn a_fixed_window_admits_twice_its_limit_around_its_edge_and_a_sliding_log_does_not() {
    for (algorithm, after_the_edge) in [(Algorithm::FixedWindow, 3), (Algorithm::SlidingLog, 0)] {
        let limiter = by_user([limit(3, MINUTE, algorithm)]);
        assert_eq!(allowed(&limiter, 4, TEN + 59 * SECOND), 3);
        assert_eq!(allowed(&limiter, 4, TEN + 60 * SECOND), after_the_edge, "{algorithm:?}");
    }
}

#[test]
fn three_per_minute_by_a_sliding_log_wait_for_the_oldest_request() {
    let limiter = by_user([limit(3, MINUTE, Algorithm::SlidingLog)]);
    for second in [0, 10, 50] {
        assert!(allows(&limiter, TEN + second * SECOND));
    }
    assert_eq!(wait(&limiter, TEN + 55 * SECOND), 5_000);
    assert!(allows(&limiter, TEN + 60 * SECOND));
    assert_eq!(wait(&limiter, TEN + 65 * SECOND), 5_000);
    assert!(allows(&limiter, TEN + 70 * SECOND));
}

#[test]
fn five_hundred_per_hour_beside_ten_per_minute_hold_both() {
    let limits = [limit(500, HOUR, Algorithm::SlidingCounters), limit(10, MINUTE, Algorithm::SlidingCounters)];
    let limiter = by_user(limits);
    for minute in 0..50 {
        assert_eq!(allowed(&limiter, 11, TEN + minute * (MINUTE + SECOND)), 10, "{minute}");
    }
    // The minute has room. The hour has room when a tenth of its first minute is over again.
    let now = TEN + 50 * (MINUTE + SECOND);
    assert_eq!(refusing(&limiter, now).limit.rate().amount, 500);
    assert_eq!(wait(&limiter, now), 9 * 60_000 + 16_000);
    assert!(allows(&limiter, TEN + HOUR + 6 * SECOND));
}

#[test]
fn a_sliding_window_weighs_the_period_before_when_the_period_is_25_percent_through() {
    let limiter = by_user([limit(50, MINUTE, Algorithm::SlidingWindow)]);
    assert_eq!(allowed(&limiter, 42, TEN), 42);
    assert_eq!(allowed(&limiter, 18, TEN + MINUTE + 15 * SECOND), 18);
    // 42 × 0.75 + 18 = 49.5. One more would be 50.5, and fits when the 42 weigh 31.
    let now = TEN + MINUTE + 15 * SECOND;
    assert_eq!(wait(&limiter, now), 714);
    assert!(allows(&limiter, now + 715_000_000));
}

#[test]
fn a_soft_limit_of_10_percent_admits_110_of_100_and_tells_which() {
    let limiter = throttled(limit(100, MINUTE, Algorithm::FixedWindow), Throttle::Soft(10));
    let decisions: Vec<_> = (0..120).map(|_| limiter.check(&[("user", "17")], 1, TEN)).collect();
    assert_eq!(decisions.iter().filter(|decision| decision.is_allowed).count(), 110);
    assert!(decisions[..100].iter().all(|decision| !decision.is_above));
    assert!(decisions[100..110].iter().all(|decision| decision.is_above));
}

#[test]
fn an_elastic_limit_admits_more_as_long_as_there_is_room() {
    let limiter = throttled(limit(3, MINUTE, Algorithm::FixedWindow), Throttle::Elastic);
    assert_eq!(allowed(&limiter, 5, TEN), 3);
    limiter.set_room(true);
    assert_eq!(allowed(&limiter, 5, TEN), 5);
    limiter.set_room(false);
    assert_eq!(allowed(&limiter, 5, TEN), 0);
}

#[test]
fn a_request_that_costs_10_spends_as_much_as_ten_requests() {
    for algorithm in Algorithm::ALL {
        let limiter = by_user([limit(25, MINUTE, algorithm)]);
        let costly = || limiter.check(&[("user", "17")], 10, TEN).is_allowed;
        assert!(costly() && costly() && !costly(), "{algorithm:?}");
        assert_eq!(allowed(&limiter, 10, TEN), 5, "{algorithm:?}");
    }
}

#[test]
fn a_queue_tells_how_long_each_request_waits_and_refuses_when_it_is_full() {
    let queue = Limit::new(Rate { amount: 2, period: SECOND }, Some(4), Algorithm::Queue).unwrap();
    let limiter = by_user([queue]);
    let after: Vec<_> = (0..4).map(|_| limiter.check(&[("user", "17")], 1, TEN).after.as_millis()).collect();
    assert_eq!(after, [0, 500, 1_000, 1_500]);
    assert_eq!(wait(&limiter, TEN), 500);
    assert_eq!(limiter.check(&[("user", "17")], 1, TEN + SECOND / 2).after.as_millis(), 1_500);
}

#[test]
fn three_per_minute_for_each_operation_beside_100_per_hour_in_all() {
    let each = Rule::new("each", [limit(3, MINUTE, Algorithm::SlidingLog)]).unwrap().by(["user", "operation"]);
    let all = Rule::new("all", [limit(100, HOUR, Algorithm::SlidingLog)]).unwrap().by(["user"]);
    let limiter = Limiter::new([each, all], [1, 2]);
    let operations: Vec<_> = (0..50).map(|number| format!("operation-{number}")).collect();
    let mut allowed = 0;
    for operation in &operations {
        let request = [("user", "17"), ("operation", operation.as_str())];
        let of_operation = (0..5).filter(|_| limiter.check(&request, 1, TEN).is_allowed).count();
        assert!(of_operation <= 3);
        allowed += of_operation;
    }
    assert_eq!(allowed, 100);
}

#[test]
fn an_address_and_a_user_must_both_have_room_and_a_refused_request_spends_neither() {
    let of = |name: &'static str| Rule::new(name, [limit(3, MINUTE, Algorithm::SlidingLog)]).unwrap().by([name]);
    let limiter = Limiter::new([of("ip"), of("user")], [1, 2]);
    let ask = |ip, user| limiter.check(&[("ip", ip), ("user", user)], 1, TEN);
    for _ in 0..3 {
        assert!(ask("192.0.2.1", "one").is_allowed);
    }
    // The second user has room, and its address has none.
    for _ in 0..10 {
        let decision = ask("192.0.2.1", "two");
        assert_eq!((decision.is_allowed, decision.limit.unwrap().rule.name()), (false, "ip"));
    }
    // The address of the second user has room, and the first user has none.
    for _ in 0..10 {
        let decision = ask("192.0.2.2", "one");
        assert_eq!((decision.is_allowed, decision.limit.unwrap().rule.name()), (false, "user"));
    }
    assert_eq!((0..5).filter(|_| ask("192.0.2.2", "two").is_allowed).count(), 3);
}
