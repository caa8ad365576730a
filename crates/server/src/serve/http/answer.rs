//! Decisions as HTTP answers.

use axum::{
    Json,
    response::{IntoResponse as _, Response},
};
use ratelimit_client::wire::{HeaderStyle, Reply, headers, status};
use ratelimit_limiter::Decision;

/// Returns the answer to one request.
pub(super) fn answer(decision: &Decision<'_>, style: HeaderStyle) -> Response {
    let reply = Reply::of(decision);
    (status(decision), headers(decision, reply.retry_after_ms, style), Json(reply)).into_response()
}
