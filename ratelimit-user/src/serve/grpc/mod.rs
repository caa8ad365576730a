//! Envoy's rate limit service: `envoy.service.ratelimit.v3.RateLimitService`.

mod question;
mod status;

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    extract::Request,
    middleware::{self, Next},
    response::Response as HttpResponse,
};
use envoy_types::pb::envoy::service::ratelimit::v3::{
    RateLimitRequest, RateLimitResponse,
    rate_limit_response::Code,
    rate_limit_service_server::{RateLimitService, RateLimitServiceServer},
};
use tokio::time::timeout;
use tonic::{Request as Call, Response as Answer, Status, async_trait, server::NamedService};

use super::{
    access::{Denied, Need},
    question::TIME,
    service::Service,
};

/// The largest message in bytes.
const MESSAGE: usize = 64 << 10;

/// Returns the routes. Callers from other machines need tokens.
pub(super) fn routes(service: &Arc<Service>, is_beyond_host: bool) -> Router {
    let envoy = Envoy { service: Arc::clone(service), is_beyond_host };
    let server = RateLimitServiceServer::new(envoy).max_decoding_message_size(MESSAGE);
    Router::new()
        .route_service(&format!("/{}/{{call}}", server_name(&server)), server)
        .layer(middleware::from_fn(in_time))
}

fn server_name<S: NamedService>(_: &S) -> &'static str {
    S::NAME
}

async fn in_time(request: Request, next: Next) -> HttpResponse {
    let late = || Status::deadline_exceeded("the call took longer than 5 seconds").into_http::<Body>();
    timeout(TIME, next.run(request)).await.unwrap_or_else(|_| late())
}

struct Envoy {
    service: Arc<Service>,
    /// Whether other machines can reach it, so that callers need tokens.
    is_beyond_host: bool,
}

#[async_trait]
impl RateLimitService for Envoy {
    async fn should_rate_limit(&self, call: Call<RateLimitRequest>) -> Result<Answer<RateLimitResponse>, Status> {
        if self.is_beyond_host {
            let headers = call.metadata().as_ref();
            self.service.allow(headers, Need::Check).map_err(|denied| match denied {
                Denied::Missing | Denied::Unknown => Status::unauthenticated(denied.to_string()),
                Denied::Scope { .. } => Status::permission_denied(denied.to_string()),
            })?;
        }
        let answer = self.service.decide_all(question::batch(call.into_inner()), |decisions| {
            let is_allowed = decisions.iter().all(|decision| decision.is_allowed);
            RateLimitResponse {
                overall_code: if is_allowed { Code::Ok } else { Code::OverLimit }.into(),
                statuses: decisions.iter().map(status::of).collect(),
                response_headers_to_add: status::headers(decisions, self.service.fleet.is_alone()),
                ..RateLimitResponse::default()
            }
        });
        answer.map(Answer::new).map_err(|error| {
            self.service.counts.count_bad();
            Status::invalid_argument(error)
        })
    }
}
