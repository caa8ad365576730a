//! Decisions as HTTP answers.

use std::time::Duration;

use axum::{
    Json,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header::RETRY_AFTER},
    response::{IntoResponse as _, Response},
};
use rustix::rand::{GetRandomFlags, getrandom};
use serde::Serialize;

use crate::{
    check::{Decision, Usage},
    text::request_rate::RequestRate,
};

/// The decision as JSON.
#[derive(Debug, Serialize)]
pub(in crate::serve) struct Reply {
    allowed: bool,
    /// The rule with the limit that refuses, or else with the one that admits the fewest further requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reset_ms: Option<u64>,
    /// With jitter. None if the request costs more than the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    /// How long to wait before the request goes on.
    #[serde(skip_serializing_if = "is_zero")]
    after_ms: u64,
    /// Whether it passed above a soft or elastic limit.
    #[serde(skip_serializing_if = "is_false")]
    above_limit: bool,
    /// The rule in shadow that would have refused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    shadow: Option<String>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn is_false(is: &bool) -> bool {
    !is
}

impl Reply {
    pub(in crate::serve) fn of(decision: &Decision<'_>) -> Self {
        let usage = decision.limit.as_ref();
        let wait = usage.filter(|_| !decision.is_allowed).and_then(|usage| usage.wait);
        let retry_after_ms = wait.map(|wait| with_jitter(milliseconds(wait)));
        Self {
            allowed: decision.is_allowed,
            rule: usage.map(|usage| usage.rule.name().to_owned()),
            limit: usage.map(|usage| RequestRate(usage.limit.rate()).to_string()),
            remaining: usage.map(|usage| usage.remaining),
            reset_ms: usage.map(|usage| milliseconds(usage.reset)),
            retry_after_ms,
            after_ms: milliseconds(decision.after),
            above_limit: decision.is_above,
            shadow: decision.shadow.map(|rule| rule.name().to_owned()),
        }
    }
}

/// Returns the answer to one request.
pub(in crate::serve) fn answer(decision: &Decision<'_>) -> Response {
    let reply = Reply::of(decision);
    (status(decision), headers(decision, &reply), Json(reply)).into_response()
}

/// Returns the decision that answers for several: the refusal with the longest wait, or else the last one.
pub(in crate::serve) fn of_all<'a, 'b>(decisions: &'a [Decision<'b>]) -> Option<(&'a Decision<'b>, Reply)> {
    // A request that costs more than its limit waits for ever.
    let wait = |decision: &&Decision<'_>| decision.limit.map(|usage| usage.wait.unwrap_or(Duration::MAX));
    let refused = decisions.iter().filter(|decision| !decision.is_allowed).max_by_key(wait);
    let decision = refused.or(decisions.last())?;
    Some((decision, Reply::of(decision)))
}

/// Returns 200 or 429.
pub(in crate::serve) fn status(decision: &Decision<'_>) -> StatusCode {
    if decision.is_allowed { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS }
}

/// Returns the headers of draft-ietf-httpapi-ratelimit-headers, and `Retry-After` of a refusal.
pub(in crate::serve) fn headers(decision: &Decision<'_>, reply: &Reply) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let Some(Usage { rule, limit, remaining, reset, .. }) = decision.limit else { return headers };
    let (name, rate) = (rule.name(), limit.rate());
    let period = seconds(Duration::from_nanos(rate.period));
    let all = [
        ("ratelimit-policy", format!("\"{name}\";q={};w={period}", rate.amount)),
        ("ratelimit", format!("\"{name}\";r={remaining};t={}", seconds(reset))),
    ];
    for (name, value) in all {
        // Names of rules have no characters that a header cannot have.
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    if let Some(wait) = reply.retry_after_ms {
        headers.insert(RETRY_AFTER, HeaderValue::from(wait.div_ceil(1_000).max(1)));
    }
    headers
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// Returns whole seconds, rounded up.
fn seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

/// Adds up to a tenth, so that clients that were refused together do not come back together.
fn with_jitter(wait: u64) -> u64 {
    let mut random = [0; 2];
    let drawn = getrandom(&mut random, GetRandomFlags::empty()).is_ok();
    let part = if drawn { u64::from(u16::from_ne_bytes(random)) } else { 0 };
    wait.saturating_add(wait / 10 * part / u64::from(u16::MAX))
}
