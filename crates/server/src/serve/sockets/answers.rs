//! What answers the calls of a socket.

use axum::{body::Body, response::Response};
use hyper::Request;

/// The interface behind a socket.
pub(in crate::serve) trait Answers: Send + Sync + 'static {
    /// Answers a call.
    fn answer(&self, call: Request<Body>) -> impl Future<Output = Response> + Send;
}
