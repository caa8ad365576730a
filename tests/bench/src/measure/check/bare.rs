//! Servers that only agree. Each is a process of its own, as the product's server is.

use anyhow::Result;
use axum::{Router, http::StatusCode, routing::post};
use envoy_types::pb::envoy::service::ratelimit::v3::{
    RateLimitRequest, RateLimitResponse,
    rate_limit_response::Code,
    rate_limit_service_server::{RateLimitService, RateLimitServiceServer},
};
use tokio::{net::TcpListener, runtime};
use tonic::{Request, Response, Status, transport::Server};

/// The arguments of the processes.
pub(super) const HTTP: &str = "--serve-http";
pub(super) const GRPC: &str = "--serve-grpc";

/// Answers 200 to every call.
pub(super) fn serve_http(address: &str) -> Result<()> {
    runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
        let router = Router::new().route("/v1/check", post(async || StatusCode::OK));
        Ok(axum::serve(TcpListener::bind(address).await?, router).await?)
    })
}

/// Answers OK to every call.
pub(super) fn serve_grpc(address: &str) -> Result<()> {
    let address = address.parse()?;
    runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
        Ok(Server::builder().add_service(RateLimitServiceServer::new(Agrees)).serve(address).await?)
    })
}

struct Agrees;

#[tonic::async_trait]
impl RateLimitService for Agrees {
    async fn should_rate_limit(&self, _: Request<RateLimitRequest>) -> Result<Response<RateLimitResponse>, Status> {
        Ok(Response::new(RateLimitResponse { overall_code: Code::Ok.into(), ..RateLimitResponse::default() }))
    }
}
