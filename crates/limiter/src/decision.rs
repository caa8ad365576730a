//! What the limiter answers.

use std::time::Duration;

use super::{limit::Limit, rule::Rule};

/// What the limiter answers to a request.
#[derive(Debug, Clone, Copy)]
pub struct Decision<'a> {
    /// Whether the request may go on.
    pub is_allowed: bool,
    /// The limit that refuses, or else the one that admits the fewest further requests. None if no rule counts it.
    pub limit: Option<Usage<'a>>,
    /// How long a request that is allowed waits in a queue.
    pub after: Duration,
    /// Whether it passed above a limit, because that is soft or elastic.
    pub is_above: bool,
    /// The rule in shadow that would have refused it.
    pub shadow: Option<&'a Rule>,
    /// The first rule that refuses it, and whose clients should be stopped at the network card: see [`Rule::with_stop`].
    pub stop: Option<&'a Rule>,
}

/// What a client has left of a limit.
#[derive(Debug, Clone, Copy)]
pub struct Usage<'a> {
    /// The rule.
    pub rule: &'a Rule,
    /// Its limit.
    pub limit: &'a Limit,
    /// Requests that it still admits.
    pub remaining: u64,
    /// Time until it has forgotten all of them.
    pub reset: Duration,
    /// Time after which the same request is admitted, if nothing else is admitted meanwhile. Zero if it was. None if it
    /// costs more than the limit.
    pub wait: Option<Duration>,
}
