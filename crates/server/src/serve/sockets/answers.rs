//! What answers the calls of a socket.

use axum::response::Response;
use hyper::{Request, body::Incoming};

/// The interface behind a socket.
pub(in crate::serve) trait Answers: Send + Sync + 'static {
    /// Answers a call.
    fn answer(&self, call: Request<Incoming>) -> impl Future<Output = Response> + Send;
}
