//! The limiter beside naive models, and the worked examples of classic designs.

mod examples;
mod models;
mod rules;

use ratelimit_common::limits::limit::SECOND;

use super::*;

const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

fn limit(amount: u64, period: u64, algorithm: Algorithm) -> Limit {
    Limit::new(Rate { amount, period }, None, algorithm).unwrap()
}

/// Returns a limiter with one rule that counts by user.
fn by_user(limits: impl IntoIterator<Item = Limit>) -> Limiter {
    Limiter::new([Rule::new("test", limits).unwrap().by(["user"])], [1, 2])
}

/// Returns whether one request of the user is allowed at this time.
fn allows(limiter: &Limiter, now: u64) -> bool {
    limiter.check(&[("user", "17")], 1, now).is_allowed
}

/// Returns how many of so many requests of the user are allowed at this time.
fn allowed(limiter: &Limiter, requests: usize, now: u64) -> usize {
    (0..requests).filter(|_| allows(limiter, now)).count()
}

/// Returns the time until the same request is allowed, in milliseconds.
fn wait(limiter: &Limiter, now: u64) -> u128 {
    let decision = limiter.check(&[("user", "17")], 1, now);
    assert!(!decision.is_allowed);
    decision.limit.unwrap().wait.unwrap().as_millis()
}
