//! Decisions as JSON.

use std::time::Duration;

use ratelimit_base::text::request_rate::RequestRate;
use ratelimit_limiter::Decision;
use serde::{Deserialize, Serialize};

use super::retry::{milliseconds, retry_after_ms};

/// The decision about a request. Callers skip fields that they do not know.
#[derive(Debug, Serialize, Deserialize)]
pub struct Reply {
    /// Whether the request may go on.
    pub allowed: bool,
    /// The rule with the limit that refuses, or else with the one that admits the fewest further requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Its limit, such as `3/m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// How many further requests it admits now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining: Option<u64>,
    /// The time until it admits all of them again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reset_ms: Option<u64>,
    /// The time after which a refused request may come again, with jitter. None if the request costs more than the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// How long to wait before the request goes on.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub after_ms: u64,
    /// Whether it passed above a soft or elastic limit.
    #[serde(default, skip_serializing_if = "is_false")]
    pub above_limit: bool,
    /// The rule in shadow that would have refused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shadow: Option<String>,
}

/// The decisions about a batch.
#[derive(Debug, Serialize, Deserialize)]
pub struct Replies {
    /// Whether all of its requests may go on.
    pub allowed: bool,
    /// One for each request, in their order.
    pub decisions: Vec<Reply>,
}

/// Why the server cannot decide a call.
#[derive(Debug, Serialize, Deserialize)]
pub struct Problem {
    /// What is wrong, and what to do.
    pub error: String,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn is_false(is: &bool) -> bool {
    !is
}

/// Returns the decision that answers for several: the refusal with the longest wait, or else the last one.
pub fn of_all<'a, 'b>(decisions: &'a [Decision<'b>]) -> Option<&'a Decision<'b>> {
    // A request that costs more than its limit waits for ever.
    let wait = |decision: &&Decision<'_>| decision.limit.map(|usage| usage.wait.unwrap_or(Duration::MAX));
    let refused = decisions.iter().filter(|decision| !decision.is_allowed).max_by_key(wait);
    refused.or(decisions.last())
}

impl Reply {
    /// Describes a decision.
    pub fn of(decision: &Decision<'_>) -> Self {
        let usage = decision.limit.as_ref();
        Self {
            allowed: decision.is_allowed,
            rule: usage.map(|usage| usage.rule.name().to_owned()),
            limit: usage.map(|usage| RequestRate(usage.limit.rate()).to_string()),
            remaining: usage.map(|usage| usage.remaining),
            reset_ms: usage.map(|usage| milliseconds(usage.reset)),
            retry_after_ms: retry_after_ms(decision),
            after_ms: milliseconds(decision.after),
            above_limit: decision.is_above,
            shadow: decision.shadow.map(|rule| rule.name().to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use ratelimit_common::limits::limit::SECOND;

    use super::*;
    use ratelimit_limiter::{Algorithm, Limit, Limiter, Rate, Rule};

    #[test]
    fn the_refusal_with_the_longest_wait_answers_for_all() {
        let rule = |name: &str, period| {
            let limit = Limit::new(Rate { amount: 1, period }, None, Algorithm::TokenBucket).unwrap();
            Rule::new(name, [limit]).unwrap().with_values("operation", [name])
        };
        let limiter = Limiter::new([rule("slow", 3_600 * SECOND), rule("fast", 60 * SECOND)], [1, 2]);
        let named = |operations: &[(&str, u32)]| {
            let batch: Vec<_> = operations.iter().map(|(name, cost)| ([("operation", *name)], *cost)).collect();
            let decisions = limiter.check_all(&batch, 0);
            of_all(&decisions).and_then(|decision| decision.limit).map(|usage| usage.rule.name().to_owned())
        };
        assert_eq!(named(&[("slow", 1), ("fast", 1)]).as_deref(), Some("fast"));
        assert_eq!(named(&[("slow", 1), ("fast", 1)]).as_deref(), Some("slow"));
        assert_eq!(named(&[("fast", 1), ("slow", 1)]).as_deref(), Some("slow"));
        // What costs more than its limit waits for ever.
        assert_eq!(named(&[("fast", 2), ("slow", 1)]).as_deref(), Some("fast"));
        assert!(of_all(&[]).is_none());
    }
}
