//! Clients that begin anew after a time without a request.

use std::time::Duration;

use super::*;

const LIFE: u64 = 150 * SECOND;

/// Returns a rule of three requests per hour by user, with a life.
fn rule(algorithm: Algorithm, seconds: Option<u64>) -> Rule {
    let rule = Rule::new("test", [limit(3, HOUR, algorithm), limit(100, 24 * HOUR, algorithm)]).unwrap().by(["user"]);
    match seconds {
        Some(seconds) => rule.with_identity_life(Duration::from_secs(seconds)),
        None => rule,
    }
}

/// A time at which hours and days begin.
const NOW: u64 = 1_000 * 24 * HOUR;

#[test]
fn a_client_that_was_away_for_its_life_begins_anew_with_every_algorithm() {
    for algorithm in Algorithm::ALL {
        let limiter = Limiter::new([rule(algorithm, Some(150))], [1, 2]);
        assert_eq!(allowed(&limiter, 10, NOW), 3, "{algorithm:?}");
        // Refused requests show that it is still there.
        assert_eq!(allowed(&limiter, 10, NOW + LIFE - 1), 0, "{algorithm:?}");
        assert_eq!(allowed(&limiter, 10, NOW + 2 * LIFE - 2), 0, "{algorithm:?}");
        assert_eq!(allowed(&limiter, 10, NOW + 3 * LIFE), 3, "{algorithm:?}");
    }
}

#[test]
fn no_wait_is_longer_than_the_life_and_the_client_is_admitted_after_it() {
    for algorithm in Algorithm::ALL {
        let other = Rule::new("other", [limit(1, 600 * SECOND, Algorithm::TokenBucket)]).unwrap().by(["user"]);
        let [alone, beside] = [vec![], vec![other]]
            .map(|more: Vec<Rule>| Limiter::new([rule(algorithm, Some(150))].into_iter().chain(more), [1, 2]));
        let ask = |limiter: &Limiter, cost, now| {
            let decision = limiter.check(&[("user", "17")], cost, now);
            let usage = decision.limit.unwrap();
            (decision.is_allowed, usage.wait.map(|wait| wait.as_nanos() as u64), usage.reset.as_nanos() as u64)
        };
        assert_eq!(allowed(&alone, 3, NOW), 3, "{algorithm:?}");
        assert_eq!(ask(&alone, 1, NOW + SECOND), (false, Some(LIFE), LIFE), "{algorithm:?}");
        assert!(ask(&alone, 1, NOW + SECOND + LIFE).0, "{algorithm:?}");
        // A request that costs more than the limit never passes.
        let (is_allowed, wait, _) = ask(&alone, 4, NOW + SECOND + LIFE);
        assert_eq!((is_allowed, wait), (false, None), "{algorithm:?}");
        // A rule without a life keeps the client for longer.
        assert!(ask(&beside, 1, NOW).0);
        let (is_allowed, wait, _) = ask(&beside, 3, NOW + SECOND);
        assert_eq!((is_allowed, wait), (false, None), "{algorithm:?}");
        assert_eq!(ask(&beside, 1, NOW + SECOND).1, Some(599 * SECOND), "{algorithm:?}");
    }
}

#[test]
fn a_client_that_was_away_is_forgotten() {
    for (seconds, left) in [(Some(150), 0), (None, 1)] {
        let limiter = Limiter::new([rule(Algorithm::SlidingLog, seconds)], [1, 2]);
        allowed(&limiter, 3, NOW);
        limiter.forget(NOW + LIFE - 1);
        assert_eq!(limiter.rules().map(|(_, clients, ..)| clients).sum::<usize>(), 1);
        limiter.forget(NOW + LIFE);
        assert_eq!(limiter.rules().map(|(_, clients, ..)| clients).sum::<usize>(), left);
    }
}

#[test]
fn a_reload_that_gives_or_takes_a_life_keeps_what_clients_have_used() {
    for algorithm in Algorithm::ALL {
        let mut limiter = Limiter::new([rule(algorithm, None)], [1, 2]);
        assert_eq!(allowed(&limiter, 1, NOW), 1);
        // Each of them leaves states for the next one.
        for seconds in [Some(150), Some(1_000), None, Some(150), None] {
            limiter = limiter.with_rules([rule(algorithm, seconds)], NOW);
            limiter.check(&[("user", "17")], 0, NOW);
        }
        limiter = limiter.with_rules([rule(algorithm, Some(150))], NOW);
        assert_eq!(allowed(&limiter, 10, NOW), 2, "{algorithm:?}");
        limiter = limiter.with_rules([rule(algorithm, None)], NOW);
        assert_eq!(allowed(&limiter, 10, NOW), 0, "{algorithm:?}");
        // A rule with another number of limits begins anew, and no state is taken for another.
        let other = Rule::new("test", (0..3).map(|_| limit(5, HOUR, algorithm))).unwrap().by(["user"]);
        limiter = limiter.with_rules([rule(algorithm, Some(150))], NOW).with_rules([other], NOW);
        assert!(allowed(&limiter, 10, NOW) <= 5, "{algorithm:?}");
        assert!(allowed(&limiter, 10, NOW + 3 * HOUR) >= 1, "{algorithm:?}");
    }
}
