//! Rules: which requests they count, what they charge, and what changes keep.

use super::*;

const NOW: u64 = 1_000 * HOUR;

#[test]
fn a_refused_request_is_charged_by_none_of_several_limits() {
    let limiter = by_user([limit(2, MINUTE, Algorithm::TokenBucket), limit(100, HOUR, Algorithm::TokenBucket)]);
    assert_eq!(allowed(&limiter, 1_000, NOW), 2);
    let usage = limiter.check(&[("user", "17")], 0, NOW + 2 * MINUTE).limit.unwrap();
    assert_eq!((usage.limit.rate().amount, usage.remaining), (2, 2));
    assert_eq!(allowed(&limiter, 1_000, NOW + 2 * MINUTE), 2);
}

#[test]
fn a_request_that_costs_more_than_a_limit_is_refused_for_ever_and_spends_nothing() {
    for algorithm in Algorithm::ALL {
        let limiter = by_user([limit(5, MINUTE, algorithm)]);
        for now in [NOW, NOW + HOUR] {
            let decision = limiter.check(&[("user", "17")], 6, now);
            assert_eq!((decision.is_allowed, decision.limit.unwrap().wait), (false, None), "{algorithm:?}");
        }
        assert_eq!(allowed(&limiter, 10, NOW + HOUR), 5);
    }
}

#[test]
fn all_requests_of_a_batch_are_charged_or_none() {
    for algorithm in Algorithm::ALL {
        let limiter = by_user([limit(5, MINUTE, algorithm)]);
        let batch = |costs: &[u32]| {
            let requests: Vec<_> = costs.iter().map(|cost| ([("user", "17")], *cost)).collect();
            limiter.check_all(&requests, NOW).iter().map(|decision| decision.is_allowed).collect::<Vec<_>>()
        };
        for _ in 0..10 {
            assert_eq!(batch(&[2, 2, 2]), [true, true, false], "{algorithm:?}");
        }
        assert_eq!(batch(&[2, 2, 1]), [true; 3], "{algorithm:?}");
        assert_eq!(batch(&[1]), [false], "{algorithm:?}");
    }
}

#[test]
fn a_limit_that_is_raised_applies_to_the_next_request() {
    for algorithm in Algorithm::ALL {
        let limiter = by_user([limit(3, MINUTE, algorithm)]);
        assert_eq!(allowed(&limiter, 100, NOW), 3);
        let rule = Rule::new("test", [limit(10, MINUTE, algorithm)]).unwrap().by(["user"]);
        assert_eq!(allowed(&limiter.with_rules([rule], NOW), 100, NOW), 7, "{algorithm:?}");
    }
}

#[test]
fn rules_with_another_key_or_algorithm_begin_anew() {
    let limiter = by_user([limit(3, MINUTE, Algorithm::TokenBucket)]);
    assert_eq!(allowed(&limiter, 100, NOW), 3);
    for algorithm in Algorithm::ALL.into_iter().skip(3) {
        let rule = Rule::new("test", [limit(3, MINUTE, algorithm)]).unwrap().by(["user"]);
        assert_eq!(allowed(&limiter.with_rules([rule], NOW), 100, NOW), 3, "{algorithm:?}");
    }
    let rule = Rule::new("test", [limit(3, MINUTE, Algorithm::TokenBucket)]).unwrap().by(["ip"]);
    assert_eq!(allowed(&limiter.with_rules([rule], NOW), 100, NOW), 100, "requests without an address are not counted");
}

#[test]
fn limits_of_other_periods_do_not_keep_clients_refused() {
    for algorithm in Algorithm::ALL {
        for (before, after) in [(MINUTE, HOUR), (HOUR, MINUTE)] {
            let limiter = by_user([limit(5, before, algorithm)]);
            assert_eq!(allowed(&limiter, 10, NOW), 5);
            let rule = Rule::new("test", [limit(5, after, algorithm)]).unwrap().by(["user"]);
            let changed = limiter.with_rules([rule], NOW);
            assert!(allowed(&changed, 10, NOW) <= 5);
            let later = NOW + 3 * after;
            assert_eq!(allowed(&changed, 10, later), 5, "{algorithm:?}");
            changed.forget(later + 3 * after);
            assert_eq!(changed.rules().next().unwrap().1, 0, "{algorithm:?}");
        }
    }
}

#[test]
fn a_request_that_costs_nothing_asks_and_takes_no_memory() {
    for algorithm in Algorithm::ALL {
        let limiter = by_user([limit(2, HOUR, algorithm)]);
        let ask = || limiter.check(&[("user", "17")], 0, NOW);
        for _ in 0..1_000 {
            assert_eq!((ask().is_allowed, ask().limit.unwrap().remaining), (true, 2), "{algorithm:?}");
        }
        limiter.forget(NOW);
        assert_eq!(limiter.rules().next().unwrap().1, 0, "{algorithm:?}");
        assert_eq!(allowed(&limiter, 10, NOW), 2);
        assert!(!ask().is_allowed);
    }
}

#[test]
fn a_client_waits_for_the_slowest_of_all_rules_that_refuse() {
    let of = |name: &str, period| Rule::new(name, [limit(1, period, Algorithm::SlidingLog)]).unwrap().by(["user"]);
    let limiter = Limiter::new([of("minute", MINUTE), of("hour", HOUR), of("second", SECOND)], [1, 2]);
    assert!(allows(&limiter, NOW));
    let usage = limiter.check(&[("user", "17")], 1, NOW).limit.unwrap();
    assert_eq!((usage.rule.name(), usage.wait.unwrap().as_nanos() as u64), ("hour", HOUR));
    // The rules that do not refuse were charged nothing meanwhile.
    assert!(!allows(&limiter, NOW + MINUTE) && !allows(&limiter, NOW + HOUR - 1));
    assert!(allows(&limiter, NOW + HOUR));
}

#[test]
fn a_client_waits_for_the_whole_cost_of_its_request_in_a_later_rule_too() {
    let of = |name: &str, amount| Rule::new(name, [limit(amount, HOUR, Algorithm::TokenBucket)]).unwrap().by(["user"]);
    let limiter = Limiter::new([of("six", 6), of("four", 4)], [1, 2]);
    assert!(limiter.check(&[("user", "17")], 4, NOW).is_allowed);
    // The first rule lacks one of three requests, and the second one all three.
    let usage = limiter.check(&[("user", "17")], 3, NOW).limit.unwrap();
    assert_eq!((usage.rule.name(), usage.wait.unwrap().as_secs()), ("four", 3 * 900));
}

#[test]
fn a_reload_with_another_number_of_clients_keeps_what_they_have_used_and_the_old_table_too() {
    let of = |clients| {
        Rule::new("test", [limit(3, HOUR, Algorithm::SlidingLog)]).unwrap().by(["user"]).with_clients(clients)
    };
    let limiter = Limiter::new([of(1_024)], [1, 2]);
    assert_eq!(allowed(&limiter, 10, NOW), 3);
    let larger = limiter.with_rules([of(4_096)], NOW);
    // Calls that are being decided still ask the old one.
    assert_eq!((allowed(&limiter, 10, NOW), allowed(&larger, 10, NOW)), (0, 0));
    let smaller = limiter.with_rules([of(64)], NOW);
    for user in 0..1_000 {
        assert!(smaller.check(&[("user", format!("other-{user}"))], 1, NOW).is_allowed);
    }
    assert!(smaller.rules().next().unwrap().1 <= 64);
}

#[test]
fn a_client_that_asks_all_the_time_keeps_its_place_in_a_full_table() {
    let rule = Rule::new("test", [limit(1, HOUR, Algorithm::TokenBucket)]).unwrap().by(["user"]).with_clients(1_024);
    let limiter = Limiter::new([rule], [1, 2]);
    for user in 0..100_000 {
        assert!(limiter.check(&[("user", format!("other-{user}"))], 1, NOW).is_allowed);
        if user == 10_000 {
            assert!(allows(&limiter, NOW));
        } else if user > 10_000 && user % 10 == 0 {
            assert!(!allows(&limiter, NOW), "{user}");
        }
    }
}

#[test]
fn addresses_match_however_they_are_written() {
    let rule = Rule::new("test", [limit(1, HOUR, Algorithm::TokenBucket)]).unwrap().with_values("ip", ["2001:db8::1"]);
    let limiter = Limiter::new([rule], [1, 2]);
    let counts = |ip| limiter.check(&[("ip", ip)], 0, NOW).limit.is_some();
    assert!(counts("2001:DB8:0::1") && !counts("2001:db8::2") && !counts("one"));
}

#[test]
fn a_rule_in_shadow_tells_and_refuses_nothing() {
    let strict = Rule::new("strict", [limit(1, MINUTE, Algorithm::SlidingLog)]).unwrap().in_shadow(true);
    let usual = Rule::new("usual", [limit(3, MINUTE, Algorithm::SlidingLog)]).unwrap();
    let limiter = Limiter::new([strict, usual], [1, 2]);
    let ask = || limiter.check(&[("user", "17")], 1, NOW);
    let first = ask();
    assert!(first.is_allowed && first.shadow.is_none());
    assert_eq!((first.limit.unwrap().rule.name(), first.limit.unwrap().remaining), ("usual", 2));
    let second = ask();
    assert_eq!((second.is_allowed, second.shadow.map(Rule::name)), (true, Some("strict")));
    assert!(ask().is_allowed && !ask().is_allowed);
}

#[test]
fn a_full_table_recycles_clients_and_says_so() {
    let rule = Rule::new("test", [limit(1, HOUR, Algorithm::TokenBucket)]).unwrap().by(["user"]).with_clients(1_024);
    let limiter = Limiter::new([rule], [1, 2]);
    for user in 0..100_000 {
        assert!(limiter.check(&[("user", user.to_string())], 1, NOW).is_allowed);
    }
    let (_, clients, recycled, _) = limiter.rules().next().unwrap();
    assert!(clients <= 1_024 && recycled as usize == 100_000 - clients, "{clients} {recycled}");
}

#[test]
fn clients_whose_counts_say_nothing_are_forgotten() {
    for algorithm in Algorithm::ALL {
        let limiter = by_user([limit(3, MINUTE, algorithm)]);
        let clients = || limiter.rules().next().unwrap().1;
        for user in 0..100 {
            assert!(limiter.check(&[("user", user.to_string())], 1, NOW).is_allowed);
        }
        limiter.forget(NOW);
        assert_eq!(clients(), 100, "{algorithm:?}");
        limiter.forget(NOW + 3 * MINUTE);
        assert_eq!(clients(), 0, "{algorithm:?}");
    }
}

#[test]
fn a_queue_has_no_requests_above_its_limit() {
    for throttle in [Throttle::Soft(50), Throttle::Elastic] {
        let rule = Rule::new("test", [limit(10, MINUTE, Algorithm::Queue)]).unwrap();
        assert_eq!(rule.with_throttle(throttle).unwrap_err(), RuleError::Queue);
    }
}

#[test]
fn limits_out_of_bounds_are_refused() {
    let refused = |amount, period, burst, algorithm| Limit::new(Rate { amount, period }, burst, algorithm).unwrap_err();
    assert_eq!(refused(0, SECOND, None, Algorithm::TokenBucket), LimitError::Rate);
    assert_eq!(refused(1, 48 * HOUR, None, Algorithm::SlidingLog), LimitError::Rate);
    assert_eq!(refused(1, SECOND, Some(0), Algorithm::Queue), LimitError::NoBurst);
    for algorithm in Algorithm::ALL.into_iter().skip(3) {
        assert_eq!(refused(1, SECOND, Some(1), algorithm), LimitError::BurstOfWindow(algorithm));
    }
    let LimitError::Window(Algorithm::SlidingWindow, most) = refused(1 << 30, HOUR, None, Algorithm::SlidingWindow)
    else {
        panic!("it fits")
    };
    assert!(Limit::new(Rate { amount: most, period: HOUR }, None, Algorithm::SlidingWindow).is_ok());
    let rule = Rule::new("test", [limit(5, MINUTE, Algorithm::FixedWindow)]).unwrap();
    assert_eq!(rule.with_throttle(Throttle::Soft(10)).unwrap_err(), RuleError::Soft(LimitError::Hundredths(10)));
}

#[test]
fn a_request_that_began_under_the_rules_before_makes_nobody_wait_for_longer_than_the_new_ones() {
    let slow = by_user([limit(1, 24 * HOUR, Algorithm::TokenBucket)]);
    let rule = Rule::new("test", [limit(1_000, SECOND, Algorithm::TokenBucket)]).unwrap().by(["user"]);
    let fast = slow.with_rules([rule], 0);
    // It charges a day.
    assert!(allows(&slow, 0));
    assert!(!allows(&fast, 0));
    assert_eq!(wait(&fast, 0), 1);
    assert!(allows(&fast, SECOND / 500));
    // A limit that was lowered refuses for its own period at most.
    let rule = Rule::new("test", [limit(100, HOUR, Algorithm::TokenBucket)]).unwrap().by(["user"]);
    assert_eq!(allowed(&fast, 1_000, 2 * SECOND), 1_000);
    let lowered = fast.with_rules([rule], 2 * SECOND);
    assert!(!allows(&lowered, 2 * SECOND));
    assert!(allows(&lowered, 2 * SECOND + HOUR / 100));
}

#[test]
fn a_refusal_in_the_middle_of_a_batch_charges_nothing_and_the_rest_is_decided_too() {
    let limiter = by_user([limit(2, HOUR, Algorithm::TokenBucket)]);
    let batch = [("17", 1), ("18", 3), ("17", 1), ("19", 1)].map(|(user, cost)| ([("user", user)], cost));
    for _ in 0..3 {
        let decisions = limiter.check_all(&batch, 0);
        let allowed: Vec<_> = decisions.iter().map(|decision| decision.is_allowed).collect();
        assert_eq!(allowed, [true, false, true, true]);
    }
    assert_eq!(allowed(&limiter, 5, 0), 2);
}
