//! Calls of the engine that have ended.

use std::time::Duration;

use ratelimit_common::fleet::share::Answer;
use ratelimit_fleet::{engine::Engine, error::Error};

use super::connection::Heard;

/// A call that has ended.
pub(super) enum Call {
    /// Reports.
    Reports(Reported),
    /// A heartbeat by the connection with this number.
    Beat(u64, Result<Heard, Error>),
    /// A try to reach the engine.
    Try(Result<(Engine, Heard), Error>),
    /// By which rule the engine forgets keys.
    Evicts(Option<String>),
}

/// Reports of sources, and their answers.
pub(super) struct Reported {
    /// Number of the connection.
    pub(super) number: u64,
    pub(super) hashes: Vec<u64>,
    pub(super) answers: Vec<Option<Answer>>,
    pub(super) failure: Option<Error>,
    /// Time that the answers took.
    pub(super) latency: Duration,
}
