//! The HTTP interface: which call asks what, within bounds.

mod answer;
mod check;
mod guard;
mod load;
mod metrics;
mod problem;
mod proxies;
mod rules;

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    http::{HeaderValue, StatusCode},
    middleware::from_fn_with_state,
    response::Response,
    routing::{any, post},
};
use hyper::Request;
use ratelimit_client::wire::{BATCH, CHECK, LOAD, LOCAL, STATUS};
use tower_service::Service as _;

pub(super) use self::metrics::Metrics;
use self::{
    load::Load,
    problem::{expected, in_time, problem},
};
use super::{rules::Book, service::Service, sockets::Answers};

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
            .route(CHECK, post(check::check).fallback(expected("POST")))
            .route(BATCH, post(check::batch).fallback(expected("POST")))
            .route("/v1/nginx", any(proxies::nginx))
            .route("/v1/traefik", any(proxies::traefik));
        if is_beyond_host {
            check = check.route_layer(from_fn_with_state(Arc::clone(service), guard::check));
        }
        let others = metrics::routes(service, is_beyond_host).merge(check);
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
    async fn answer(&self, call: Request<Body>) -> Response {
        if rules::is_about_rules(call.uri().path()) {
            // A change that has begun is made, however long it takes.
            let Ok(answer) = self.rules.clone().call(call).await;
            return answer;
        }
        let begun = self.load.begin();
        let mut answer = in_time(self.in_time.clone().call(call)).await;
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
