//! The HTTP interface: which call asks what, within bounds.

mod answer;
mod check;
mod problem;
mod proxies;

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{DefaultBodyLimit, Request, State},
    http::{StatusCode, header::CONTENT_TYPE},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{any, get, post},
};
use tokio::time::timeout;

use self::problem::problem;
use super::service::Service;

/// The largest body in bytes.
const BODY: usize = 64 << 10;
/// The time in which a call must arrive and be answered.
const TIME: Duration = Duration::from_secs(5);

/// Returns the routes.
pub(super) fn routes(service: Arc<Service>) -> Router {
    Router::new()
        .route("/v1/check", post(check::check))
        .route("/v1/check/batch", post(check::batch))
        .route("/v1/nginx", any(proxies::nginx))
        .route("/v1/traefik", any(proxies::traefik))
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .fallback(|| async { problem(StatusCode::NOT_FOUND, "not found: POST /v1/check asks about a request") })
        .layer(DefaultBodyLimit::max(BODY))
        .layer(middleware::from_fn(in_time))
        .with_state(service)
}

async fn in_time(request: Request, next: Next) -> Response {
    let late = || problem(StatusCode::REQUEST_TIMEOUT, "the call took longer than 5 seconds");
    timeout(TIME, next.run(request)).await.unwrap_or_else(|_| late())
}

async fn health(State(service): State<Arc<Service>>) -> Response {
    if service.is_ending() {
        return (StatusCode::SERVICE_UNAVAILABLE, "ending\n").into_response();
    }
    "ok\n".into_response()
}

async fn metrics(State(service): State<Arc<Service>>) -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], service.metrics())
}
