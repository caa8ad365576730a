//! Calls that need a token.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header::WWW_AUTHENTICATE},
    middleware::Next,
    response::Response,
};

use super::problem::problem;
use crate::serve::{
    access::{Caller, Denied, Need},
    service::Service,
};

/// Lets calls pass whose token may ask whether requests go on.
pub(super) async fn check(State(service): State<Arc<Service>>, call: Request, next: Next) -> Response {
    pass(&service, Need::Check, call, next).await
}

/// Lets calls pass whose token may read metrics.
pub(super) async fn metrics(State(service): State<Arc<Service>>, call: Request, next: Next) -> Response {
    pass(&service, Need::Metrics, call, next).await
}

async fn pass(service: &Service, need: Need<'_>, call: Request, next: Next) -> Response {
    match allow(service, call.headers(), need) {
        Ok(_) => next.run(call).await,
        Err(answer) => *answer,
    }
}

/// Returns the caller if it may do this, or else the answer.
pub(super) fn allow(service: &Service, headers: &HeaderMap, need: Need<'_>) -> Result<Caller, Box<Response>> {
    service.allow(headers, need).map_err(|denied| {
        let status = match denied {
            Denied::Missing | Denied::Unknown => StatusCode::UNAUTHORIZED,
            Denied::Scope { .. } => StatusCode::FORBIDDEN,
        };
        let mut answer = problem(status, denied.to_string());
        if status == StatusCode::UNAUTHORIZED {
            answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        Box::new(answer)
    })
}
