//! The HTTP interface: which call asks what, within bounds.

mod answer;
mod check;
mod guard;
mod load;
mod problem;
mod proxies;
mod rules;

use std::sync::Arc;

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderValue, StatusCode, header::CONTENT_TYPE},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::{any, get, post},
};
use tokio::time::timeout;

use self::{load::Load, problem::problem};
use super::{question::TIME, rules::Book, service::Service};
use crate::wire::{BATCH, CHECK, LOAD, LOCAL, STATUS};

/// Returns the routes. Callers from other machines need tokens for all but `/health`.
pub(super) fn routes(service: &Arc<Service>, book: Arc<Book>, is_beyond_host: bool) -> Router {
    let mut check = Router::new()
        .route(CHECK, post(check::check))
        .route(BATCH, post(check::batch))
        .route("/v1/nginx", any(proxies::nginx))
        .route("/v1/traefik", any(proxies::traefik));
    let mut metrics = Router::new().route("/metrics", get(self::metrics));
    if is_beyond_host {
        check = check.route_layer(from_fn_with_state(Arc::clone(service), guard::check));
        metrics = metrics.route_layer(from_fn_with_state(Arc::clone(service), guard::metrics));
    }
    Router::new()
        .route("/health", get(health))
        .merge(check)
        .merge(metrics)
        .fallback(|| async { problem(StatusCode::NOT_FOUND, "not found: POST /v1/check asks about a request") })
        .layer(from_fn_with_state((Load::default(), Arc::clone(service)), in_time))
        .with_state(Arc::clone(service))
        // A change that has begun is made, however long it takes.
        .merge(rules::routes(Arc::clone(service), book))
}

/// Answers in time, and says how busy this server is, and whether limits should be shared and are not.
async fn in_time(State((load, service)): State<(Load, Arc<Service>)>, request: Request, next: Next) -> Response {
    let call = load.begin();
    let late = || problem(StatusCode::REQUEST_TIMEOUT, "the call took longer than 5 seconds");
    let mut answer = timeout(TIME, next.run(request)).await.unwrap_or_else(|_| late());
    let headers = answer.headers_mut();
    headers.insert(LOAD, HeaderValue::from(call.load()));
    if service.fleet.is_alone() {
        headers.insert(STATUS, HeaderValue::from_static(LOCAL));
    }
    answer
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
