//! What the server and its callers tell each other by HTTP: paths, bounds, fields and headers.

pub mod headers;
mod reply;
mod retry;

use http::HeaderName;

pub use self::{
    headers::{HeaderStyle, headers, status},
    reply::{Problem, Replies, Reply, of_all},
    retry::retry_after_ms,
};

/// The path that decides one request.
pub const CHECK: &str = "/v1/check";
/// The path that decides several requests.
pub const BATCH: &str = "/v1/check/batch";
/// The largest body of a question in bytes.
pub const BODY: usize = 64 << 10;
/// The header with the number of calls that the server is answering.
pub const LOAD: HeaderName = HeaderName::from_static("ratelimit-load");
/// The header that tells that the limits of this server apply alone, although it is in a fleet.
pub const STATUS: HeaderName = HeaderName::from_static("ratelimit-status");
/// The value of that header.
pub const LOCAL: &str = "local";
