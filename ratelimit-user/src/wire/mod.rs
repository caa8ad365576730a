//! What the server and its callers tell each other by HTTP: paths, bounds, fields and headers.

mod headers;
mod reply;
mod retry;

use axum::http::HeaderName;

pub use self::headers::HeaderStyle;
pub(crate) use self::{
    headers::{headers, status},
    reply::{Problem, Replies, Reply, of_all},
    retry::retry_after_ms,
};

/// The path that decides one request.
pub(crate) const CHECK: &str = "/v1/check";
/// The path that decides several requests.
pub(crate) const BATCH: &str = "/v1/check/batch";
/// The largest body of a question in bytes.
pub(crate) const BODY: usize = 64 << 10;
/// The header with the number of calls that the server is answering.
pub(crate) const LOAD: HeaderName = HeaderName::from_static("ratelimit-load");
/// The header that tells that the limits of this server apply alone, although it is in a fleet.
pub(crate) const STATUS: HeaderName = HeaderName::from_static("ratelimit-status");
pub(crate) const LOCAL: &str = "local";
