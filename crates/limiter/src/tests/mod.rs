//! The limiter beside naive models, and the worked examples of classic designs.

mod examples;
mod life;
mod models;
mod records;
mod rules;
mod shares;

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

/// Returns a limiter with one rule by user that has this throttle.
fn throttled(limit: Limit, throttle: Throttle) -> Limiter {
    let rule = Rule::new("test", [limit]).unwrap().by(["user"]);
    Limiter::new([rule.with_throttle(throttle).unwrap()], [1, 2])
}

/// Returns the limit that refuses a request of the user at this time.
fn refusing(limiter: &Limiter, now: u64) -> Usage<'_> {
    let decision = limiter.check(&[("user", "17")], 1, now);
    assert!(!decision.is_allowed);
    decision.limit.unwrap()
}

/// Returns the time until the same request is allowed, in milliseconds.
fn wait(limiter: &Limiter, now: u64) -> u128 {
    refusing(limiter, now).wait.unwrap().as_millis()
}
