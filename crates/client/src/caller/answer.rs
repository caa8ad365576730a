//! What a service gets to know.

use std::time::Duration;

use ratelimit_base::text::request_rate::RequestRate;

use super::error::Undecided;
use crate::wire::{Replies, Reply};

/// The answer to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Whether the request may go on, after [`after`](Self::after).
    pub is_allowed: bool,
    /// The rule with the limit that refuses, or else with the one that admits the fewest further requests. None if no rule
    /// counts the request.
    pub rule: Option<String>,
    /// That limit.
    pub limit: Option<RequestRate>,
    /// Requests that it still admits.
    pub remaining: Option<u64>,
    /// Time until it has forgotten the requests before.
    pub reset: Option<Duration>,
    /// Time until a refused request is admitted. None if it is allowed, or costs more than the limit.
    pub retry_after: Option<Duration>,
    /// How long the request waits in a queue before it goes on.
    pub after: Duration,
    /// Whether it passed above a soft or elastic limit.
    pub above_limit: bool,
    /// A rule in shadow that would have refused it.
    pub shadow: Option<String>,
    /// Why no server has decided. The request is allowed then. None if a server has decided.
    pub undecided: Option<Undecided>,
}

/// The answer to several questions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answers {
    /// Whether all requests may go on. If not, none of them is charged.
    pub are_allowed: bool,
    /// The answers up to the first that refuses. Empty if no server has decided.
    pub answers: Vec<Answer>,
    /// Why no server has decided. All requests are allowed then. None if a server has decided.
    pub undecided: Option<Undecided>,
}

impl Answer {
    /// Returns the answer if no server has decided.
    pub(super) fn undecided(reason: Undecided) -> Self {
        Self {
            is_allowed: true,
            rule: None,
            limit: None,
            remaining: None,
            reset: None,
            retry_after: None,
            after: Duration::ZERO,
            above_limit: false,
            shadow: None,
            undecided: Some(reason),
        }
    }

    /// Returns whether a server has decided.
    #[must_use]
    pub fn is_decided(&self) -> bool {
        self.undecided.is_none()
    }

    /// Reads the answer of a server. None if it makes no sense.
    pub(super) fn read(is_ok: bool, body: &[u8]) -> Option<Self> {
        serde_json::from_slice(body).ok().filter(|reply: &Reply| reply.allowed == is_ok).and_then(Self::of)
    }

    fn of(reply: Reply) -> Option<Self> {
        let limit = reply.limit.map(|limit| limit.parse()).transpose().ok()?;
        Some(Self {
            is_allowed: reply.allowed,
            rule: reply.rule,
            limit,
            remaining: reply.remaining,
            reset: reply.reset_ms.map(Duration::from_millis),
            retry_after: reply.retry_after_ms.map(Duration::from_millis),
            after: Duration::from_millis(reply.after_ms),
            above_limit: reply.above_limit,
            shadow: reply.shadow,
            undecided: None,
        })
    }
}

impl Answers {
    /// Returns the answer if no server has decided.
    pub(super) fn undecided(reason: Undecided) -> Self {
        Self { are_allowed: true, answers: Vec::new(), undecided: Some(reason) }
    }

    /// Reads the answer of a server. None if it makes no sense.
    pub(super) fn read(is_ok: bool, body: &[u8]) -> Option<Self> {
        let replies: Replies =
            serde_json::from_slice(body).ok().filter(|replies: &Replies| replies.allowed == is_ok)?;
        let answers = replies.decisions.into_iter().map(Answer::of).collect::<Option<_>>()?;
        Some(Self { are_allowed: replies.allowed, answers, undecided: None })
    }
}
