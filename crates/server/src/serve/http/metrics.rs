//! Metrics and health, also at an address of their own.

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    middleware::from_fn_with_state,
    response::{IntoResponse, Response},
    routing::get,
};
use hyper::Request;
use tower_service::Service as _;

use super::{
    guard,
    problem::{expected, in_time, problem},
};
use crate::serve::{service::Service, sockets::Answers};

/// The calls of an address for metrics alone.
pub(in crate::serve) struct Metrics(Router);

impl Metrics {
    /// Callers from other machines need tokens for all but `/health`.
    pub(in crate::serve) fn new(service: &Arc<Service>, is_beyond_host: bool) -> Self {
        let routes = routes(service, is_beyond_host).fallback(not_found);
        Self(routes.with_state(Arc::clone(service)))
    }
}

impl Answers for Metrics {
    async fn answer(&self, call: Request<Body>) -> Response {
        in_time(self.0.clone().call(call)).await
    }
}

/// Returns the routes.
pub(super) fn routes(service: &Arc<Service>, is_beyond_host: bool) -> Router<Arc<Service>> {
    let mut metrics = Router::new().route("/metrics", get(self::metrics).fallback(expected("GET")));
    if is_beyond_host {
        metrics = metrics.route_layer(from_fn_with_state(Arc::clone(service), guard::metrics));
    }
    metrics.route("/health", get(health).fallback(expected("GET")))
}

async fn not_found() -> Response {
    problem(StatusCode::NOT_FOUND, "not found: expected GET /metrics or GET /health")
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
