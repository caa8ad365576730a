//! Decisions as a status and headers.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header::RETRY_AFTER};

use crate::check::{Decision, Usage};

/// Returns 200 or 429.
pub(crate) fn status(decision: &Decision<'_>) -> StatusCode {
    if decision.is_allowed { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS }
}

/// Returns the headers of draft-ietf-httpapi-ratelimit-headers, and `Retry-After` if there is a time to wait.
pub(crate) fn headers(decision: &Decision<'_>, retry_after_ms: Option<u64>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let Some(Usage { rule, limit, remaining, reset, .. }) = decision.limit else { return headers };
    let (name, rate) = (rule.name(), limit.rate());
    let period = seconds(Duration::from_nanos(rate.period));
    let all = [
        ("ratelimit-policy", format!("\"{name}\";q={};w={period}", rate.amount)),
        ("ratelimit", format!("\"{name}\";r={remaining};t={}", seconds(reset))),
    ];
    for (name, value) in all {
        // Names of rules in files have no characters that a header cannot have.
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    if let Some(wait) = retry_after_ms {
        headers.insert(RETRY_AFTER, HeaderValue::from(wait.div_ceil(1_000).max(1)));
    }
    headers
}

/// Returns whole seconds, rounded up.
fn seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}
