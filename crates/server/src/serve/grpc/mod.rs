//! Envoy's rate limit service, `envoy.service.ratelimit.v3.RateLimitService`, and the health service of gRPC.

mod health;
mod messages;
mod question;
mod status;

use std::{
    future::{Ready, ready},
    sync::Arc,
};

use axum::{
    Router,
    body::Body,
    extract::{Request as HttpRequest, State},
    middleware::{Next, from_fn_with_state},
    response::Response,
    routing::post,
};
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitResponse, rate_limit_response::Code};
use hyper::Request;
use tokio::time::timeout;
use tonic::{
    Request as Call, Response as Answer, Status,
    server::{Grpc, UnaryService},
};
use tonic_prost::ProstCodec;
use tower_service::Service as _;

use self::messages::RateLimitCall;
use super::{
    access::{Denied, Need, Peer},
    question::TIME,
    service::Service,
    sockets::Answers,
};

/// The path of a call.
const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
/// The largest message in bytes. Envoy repeats headers of a request in it, which have up to 60 KiB by default.
const MESSAGE: usize = 1 << 20;

/// The calls of the gRPC interface.
pub(super) struct Routes(Router);

impl Routes {
    /// Callers from other machines need tokens for all but health checks.
    pub(super) fn new(service: &Arc<Service>, is_beyond_host: bool) -> Self {
        let mut routes = Router::new().route(SHOULD_RATE_LIMIT, post(should_rate_limit));
        if is_beyond_host {
            routes = routes.route_layer(from_fn_with_state(Arc::clone(service), guard));
        }
        let health = Router::new().route(health::CHECK, post(health::check)).with_state(Arc::clone(service));
        Self(routes.with_state(Arc::clone(service)).merge(health))
    }
}

impl Answers for Routes {
    async fn answer(&self, call: Request<Body>) -> Response {
        match timeout(TIME, self.0.clone().call(call)).await {
            Ok(Ok(answer)) => answer,
            Err(_) => Status::deadline_exceeded("the call took longer than 5 seconds").into_http(),
        }
    }
}

/// Lets calls pass whose token may ask. No message is read before.
async fn guard(State(service): State<Arc<Service>>, call: HttpRequest, next: Next) -> Response {
    match service.allow(call.headers(), Need::Check) {
        Ok(_) => next.run(call).await,
        Err(denied @ Denied::Scope { .. }) => Status::permission_denied(denied.to_string()).into_http::<Body>(),
        Err(denied) => Status::unauthenticated(denied.to_string()).into_http::<Body>(),
    }
}

/// Answers a call of Envoy.
async fn should_rate_limit(State(service): State<Arc<Service>>, call: HttpRequest) -> Response {
    let codec = ProstCodec::<RateLimitResponse, RateLimitCall>::default();
    let mut grpc = Grpc::new(codec).apply_max_message_size_config(Some(MESSAGE), None);
    grpc.unary(Envoy(service), call).await.map(Body::new)
}

struct Envoy(Arc<Service>);

impl UnaryService<RateLimitCall> for Envoy {
    type Response = RateLimitResponse;
    type Future = Ready<Result<Answer<RateLimitResponse>, Status>>;

    fn call(&mut self, call: Call<RateLimitCall>) -> Self::Future {
        let Self(service) = self;
        let peer = call.extensions().get::<Peer>().copied();
        let batch = question::batch(call.into_inner(), service.merges_paths()).from(peer);
        let answer = service.decide_all(batch, |decisions| {
            let is_allowed = decisions.iter().all(|decision| decision.is_allowed);
            RateLimitResponse {
                overall_code: if is_allowed { Code::Ok } else { Code::OverLimit }.into(),
                statuses: decisions.iter().map(status::of).collect(),
                response_headers_to_add: status::headers(decisions, service.style(), service.fleet.is_alone()),
                ..RateLimitResponse::default()
            }
        });
        ready(answer.map(Answer::new).map_err(|error| {
            service.counts.count_bad();
            Status::invalid_argument(error)
        }))
    }
}
