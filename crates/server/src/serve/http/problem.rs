//! Calls that cannot be decided.

use std::{
    convert::Infallible,
    future::{Ready, ready},
};

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use ratelimit_client::wire::Problem;
use tokio::time::timeout;

use crate::serve::{question::TIME, service::Service};

/// Answers a call that makes no sense, and counts it.
pub(super) fn bad(service: &Service, error: String) -> Response {
    service.counts.count_bad();
    problem(StatusCode::BAD_REQUEST, error)
}

/// Returns an answer, or one that says that it took too long.
pub(super) async fn in_time(answer: impl Future<Output = Result<Response, Infallible>>) -> Response {
    match timeout(TIME, answer).await {
        Ok(Ok(answer)) => answer,
        Err(_) => problem(StatusCode::REQUEST_TIMEOUT, "the call took longer than 5 seconds"),
    }
}

/// Returns what answers a call of another method. The library adds the header `Allow`.
pub(super) fn expected(method: &'static str) -> impl Fn() -> Ready<Response> + Clone + Send + Sync + 'static {
    move || ready(problem(StatusCode::METHOD_NOT_ALLOWED, format!("expected {method}")))
}

/// Returns an answer with a reason.
pub(super) fn problem(status: StatusCode, error: impl Into<String>) -> Response {
    (status, Json(Problem { error: error.into() })).into_response()
}
