//! Envoy's rate limit service, `envoy.service.ratelimit.v3.RateLimitService`, and the health service of gRPC.

mod health;
mod question;
mod status;

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    extract::{Request as HttpRequest, State},
    middleware::{Next, from_fn_with_state},
    response::Response,
    routing::post,
};
use envoy_types::pb::envoy::service::ratelimit::v3::{
    RateLimitRequest, RateLimitResponse,
    rate_limit_response::Code,
    rate_limit_service_server::{RateLimitService, RateLimitServiceServer},
};
use hyper::{Request, body::Incoming};
use tokio::time::timeout;
use tonic::{Request as Call, Response as Answer, Status, async_trait, server::NamedService};
use tower_service::Service as _;

use super::{
    access::{Denied, Need, Peer},
    question::TIME,
    service::Service,
    sockets::Answers,
};

/// The largest message in bytes. Envoy repeats headers of a request in it, which have up to 60 KiB by default.
const MESSAGE: usize = 1 << 20;

/// The calls of the gRPC interface.
pub(super) struct Routes(Router);

impl Routes {
    /// Callers from other machines need tokens for all but health checks.
    pub(super) fn new(service: &Arc<Service>, is_beyond_host: bool) -> Self {
        let server = RateLimitServiceServer::new(Envoy { service: Arc::clone(service) });
        let server = server.max_decoding_message_size(MESSAGE);
        let mut routes = Router::new().route_service(&format!("/{}/{{call}}", server_name(&server)), server);
        if is_beyond_host {
            routes = routes.route_layer(from_fn_with_state(Arc::clone(service), guard));
        }
        let health = Router::new().route(health::CHECK, post(health::check)).with_state(Arc::clone(service));
        Self(routes.merge(health))
    }
}

impl Answers for Routes {
    async fn answer(&self, call: Request<Incoming>) -> Response {
        match timeout(TIME, self.0.clone().call(call)).await {
            Ok(Ok(answer)) => answer,
            Err(_) => Status::deadline_exceeded("the call took longer than 5 seconds").into_http(),
        }
    }
}

fn server_name<S: NamedService>(_: &S) -> &'static str {
    S::NAME
}

/// Lets calls pass whose token may ask. No message is read before.
async fn guard(State(service): State<Arc<Service>>, call: HttpRequest, next: Next) -> Response {
    match service.allow(call.headers(), Need::Check) {
        Ok(_) => next.run(call).await,
        Err(denied @ Denied::Scope { .. }) => Status::permission_denied(denied.to_string()).into_http::<Body>(),
        Err(denied) => Status::unauthenticated(denied.to_string()).into_http::<Body>(),
    }
}

struct Envoy {
    service: Arc<Service>,
}

#[async_trait]
impl RateLimitService for Envoy {
    async fn should_rate_limit(&self, call: Call<RateLimitRequest>) -> Result<Answer<RateLimitResponse>, Status> {
        let peer = call.extensions().get::<Peer>().copied();
        let answer = self.service.decide_all(question::batch(call.into_inner()).from(peer), |decisions| {
            let is_allowed = decisions.iter().all(|decision| decision.is_allowed);
            RateLimitResponse {
                overall_code: if is_allowed { Code::Ok } else { Code::OverLimit }.into(),
                statuses: decisions.iter().map(status::of).collect(),
                response_headers_to_add: status::headers(
                    decisions,
                    self.service.style(),
                    self.service.fleet.is_alone(),
                ),
                ..RateLimitResponse::default()
            }
        });
        answer.map(Answer::new).map_err(|error| {
            self.service.counts.count_bad();
            Status::invalid_argument(error)
        })
    }
}
