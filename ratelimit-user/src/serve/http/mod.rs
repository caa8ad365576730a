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
    extract::State,
    http::{HeaderValue, StatusCode, header::CONTENT_TYPE},
    middleware::from_fn_with_state,
    response::{IntoResponse, Response},
    routing::{any, get, post},
};
use hyper::{Request, body::Incoming};
use tokio::time::timeout;
use tower_service::Service as _;

use self::{load::Load, problem::problem};
use super::{question::TIME, rules::Book, service::Service, sockets::Answers};
use crate::wire::{BATCH, CHECK, LOAD, LOCAL, STATUS};

/// The calls of the HTTP interface.
pub(super) struct Routes {
    in_time: Router,
    rules: Router,
    load: Load,
    service: Arc<Service>,
}

impl Routes {
    /// Callers from other machines need tokens for all but `/health`.
    pub(super) fn new(service: &Arc<Service>, book: Arc<Book>, is_beyond_host: bool) -> Self {
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
        let others = Router::new().route("/health", get(health)).merge(check).merge(metrics);
        let service = Arc::clone(service);
        Self {
            in_time: others.fallback(not_found).with_state(Arc::clone(&service)),
            rules: rules::routes(Arc::clone(&service), book).fallback(not_found),
            load: Load::default(),
            service,
        }
    }
}

impl Answers for Routes {
    /// Answers in time, and says how busy this server is, and whether limits should be shared and are not.
    async fn answer(&self, call: Request<Incoming>) -> Response {
        if rules::is_about_rules(call.uri().path()) {
            // A change that has begun is made, however long it takes.
            let Ok(answer) = self.rules.clone().call(call).await;
            return answer;
        }
        let begun = self.load.begin();
        let mut answer = match timeout(TIME, self.in_time.clone().call(call)).await {
            Ok(Ok(answer)) => answer,
            Err(_) => problem(StatusCode::REQUEST_TIMEOUT, "the call took longer than 5 seconds"),
        };
        let headers = answer.headers_mut();
        headers.insert(LOAD, HeaderValue::from(begun.load()));
        if self.service.fleet.is_alone() {
            headers.insert(STATUS, HeaderValue::from_static(LOCAL));
        }
        answer
    }
}

async fn not_found() -> Response {
    problem(StatusCode::NOT_FOUND, "not found: POST /v1/check asks about a request")
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
