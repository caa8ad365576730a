//! The answer to a request that is refused.

use http::Response;
use ratelimit_limiter::Decision;

use crate::wire::{self, HeaderStyle};

/// Returns 429 (RFC 6585) without a body, with `RateLimit`, `RateLimit-Policy` and `Retry-After`.
///
/// `Retry-After` has whole seconds, rounded up, and up to a tenth more at random. It is missing if the request costs more
/// than the limit.
#[must_use]
pub fn too_many_requests<B: Default>(decision: &Decision<'_>) -> Response<B> {
    let mut response = Response::new(B::default());
    *response.status_mut() = wire::status(decision);
    *response.headers_mut() = wire::headers(decision, wire::retry_after_ms(decision), HeaderStyle::RateLimit);
    response
}
