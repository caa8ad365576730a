//! Calls that cannot be decided.

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse as _, Response},
};

use crate::{serve::service::Service, wire::Problem};

/// Answers a call that makes no sense, and counts it.
pub(super) fn bad(service: &Service, error: String) -> Response {
    service.counts.count_bad();
    problem(StatusCode::BAD_REQUEST, error)
}

/// Returns an answer with a reason.
pub(super) fn problem(status: StatusCode, error: impl Into<String>) -> Response {
    (status, Json(Problem { error: error.into() })).into_response()
}
