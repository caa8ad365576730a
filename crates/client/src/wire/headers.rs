//! Decisions as a status and headers.

use std::{fmt::Write as _, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header::RETRY_AFTER};
use ratelimit_limiter::{Decision, Usage};

/// How headers tell what a client has left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HeaderStyle {
    /// `RateLimit` and `RateLimit-Policy` of draft-ietf-httpapi-ratelimit-headers.
    #[default]
    RateLimit,
    /// The older `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset`.
    XRateLimit,
    /// They do not.
    None,
}

/// The headers of an answer, with those that others add.
const HEADERS: usize = 6;
const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Returns 200 or 429.
pub fn status(decision: &Decision<'_>) -> StatusCode {
    if decision.is_allowed { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS }
}

/// Returns the headers about the limit, and `Retry-After` if there is a time to wait.
pub fn headers(decision: &Decision<'_>, retry_after_ms: Option<u64>, style: HeaderStyle) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(HEADERS);
    let Some(Usage { rule, limit, remaining, reset, .. }) = decision.limit else { return headers };
    let (rate, reset) = (limit.rate(), seconds(reset));
    match style {
        HeaderStyle::RateLimit => {
            let (name, period) = (rule.name(), seconds(Duration::from_nanos(rate.period)));
            let mut text = String::with_capacity(name.len() + 64);
            let _ = write!(text, "\"{name}\";q={};w={period}", rate.amount);
            insert(&mut headers, POLICY, &text);
            text.clear();
            let _ = write!(text, "\"{name}\";r={remaining};t={reset}");
            insert(&mut headers, LIMIT, &text);
        }
        HeaderStyle::XRateLimit => {
            for (name, number) in [(X_LIMIT, rate.amount), (X_REMAINING, remaining), (X_RESET, reset)] {
                headers.insert(name, HeaderValue::from(number));
            }
        }
        HeaderStyle::None => {}
    }
    if let Some(wait) = retry_after_ms {
        headers.insert(RETRY_AFTER, HeaderValue::from(wait.div_ceil(1_000).max(1)));
    }
    headers
}

/// Names of rules in files have no characters that a header cannot have. The header is missing for others.
fn insert(headers: &mut HeaderMap, name: HeaderName, text: &str) {
    if let Ok(value) = HeaderValue::from_str(text) {
        headers.insert(name, value);
    }
}

/// Returns whole seconds, rounded up.
fn seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use ratelimit_common::limits::limit::SECOND;

    use super::*;
    use crate::wire::retry_after_ms;
    use ratelimit_limiter::{Algorithm, Limit, Limiter, Rate, Rule};

    #[test]
    fn each_style_has_its_headers_and_the_time_to_wait_is_in_all() {
        let limit = Limit::new(Rate { amount: 3, period: 60 * SECOND }, None, Algorithm::FixedWindow).unwrap();
        let limiter = Limiter::new([Rule::new("a", [limit]).unwrap()], [1, 2]);
        let of = |cost, style| {
            let decision = limiter.check(&[("user", "17")], cost, SECOND / 2);
            let headers = headers(&decision, retry_after_ms(&decision), style);
            let mut lines: Vec<_> =
                headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
            lines.sort();
            lines
        };
        assert_eq!(of(1, HeaderStyle::RateLimit), ["ratelimit-policy: \"a\";q=3;w=60", "ratelimit: \"a\";r=2;t=60"]);
        let expected = ["x-ratelimit-limit: 3", "x-ratelimit-remaining: 1", "x-ratelimit-reset: 60"];
        assert_eq!(of(1, HeaderStyle::XRateLimit), expected);
        assert_eq!(of(1, HeaderStyle::None), [""; 0]);
        for (style, count) in [(HeaderStyle::RateLimit, 3), (HeaderStyle::XRateLimit, 4), (HeaderStyle::None, 1)] {
            let lines = of(1, style);
            assert_eq!(lines.len(), count, "{lines:?}");
            let wait: u64 = lines.iter().find_map(|line| line.strip_prefix("retry-after: ")).unwrap().parse().unwrap();
            assert!((60..=66).contains(&wait), "{wait}");
        }
        // A request that costs more than the limit has nothing to wait for.
        assert_eq!(of(4, HeaderStyle::None), [""; 0]);
    }
}
