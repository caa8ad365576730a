//! Decisions as Envoy's messages.

use axum::http;
use envoy_types::pb::{
    envoy::{
        config::core::v3::HeaderValue,
        service::ratelimit::v3::rate_limit_response::{Code, DescriptorStatus, RateLimit, rate_limit::Unit},
    },
    google::protobuf::Duration,
};
use ratelimit_client::wire::{self, HeaderStyle, LOCAL, STATUS};
use ratelimit_common::limits::limit::{DAY, Rate, SECOND};
use ratelimit_limiter::{Decision, Usage};

/// Returns the status of a descriptor. Without a rule that counts it, it has no limit.
pub(super) fn of(decision: &Decision<'_>) -> DescriptorStatus {
    let code = if decision.is_allowed { Code::Ok } else { Code::OverLimit }.into();
    let Some(Usage { rule, limit, remaining, reset, .. }) = decision.limit else {
        return DescriptorStatus { code, ..DescriptorStatus::default() };
    };
    let (requests_per_unit, unit) = in_units(limit.rate());
    DescriptorStatus {
        code,
        current_limit: Some(RateLimit { name: rule.name().to_owned(), requests_per_unit, unit: unit.into() }),
        limit_remaining: u32::try_from(remaining).unwrap_or(u32::MAX),
        duration_until_reset: Some(Duration {
            seconds: i64::try_from(reset.as_secs()).unwrap_or(i64::MAX),
            nanos: i32::try_from(reset.subsec_nanos()).unwrap_or(0),
        }),
        ..DescriptorStatus::default()
    }
}

/// Returns the headers that Envoy adds to the response.
pub(super) fn headers(decisions: &[Decision<'_>], style: HeaderStyle, is_alone: bool) -> Vec<HeaderValue> {
    let of = |decision| wire::headers(decision, wire::retry_after_ms(decision), style);
    let mut headers = wire::of_all(decisions).map(of).unwrap_or_default();
    if is_alone {
        headers.insert(STATUS, http::HeaderValue::from_static(LOCAL));
    }
    let header = |(name, value): (&http::HeaderName, &http::HeaderValue)| HeaderValue {
        key: name.to_string(),
        value: String::from_utf8_lossy(value.as_bytes()).into_owned(),
        ..HeaderValue::default()
    };
    headers.iter().map(header).collect()
}

const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// Returns a rate in a unit that Envoy knows, or the requests of a period of unknown length.
fn in_units(rate: Rate) -> (u32, Unit) {
    let unit = match rate.period {
        SECOND => Unit::Second,
        MINUTE => Unit::Minute,
        HOUR => Unit::Hour,
        DAY => Unit::Day,
        _ => Unit::Unknown,
    };
    (u32::try_from(rate.amount).unwrap_or(u32::MAX), unit)
}
