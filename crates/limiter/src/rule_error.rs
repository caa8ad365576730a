//! Why a rule is not accepted.

use super::{limit::LimitError, verdict::MOST_LIMITS};

/// Reason why a rule is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// No limit.
    #[error("a rule needs at least one limit")]
    NoLimit,
    /// Too many limits.
    #[error("a rule has at most {MOST_LIMITS} limits")]
    Limits,
    /// A queue with another throttle than a hard one.
    #[error("a queue delays what is above its rate: soft and elastic limits do not go with it")]
    Queue,
    /// A soft limit that its limits do not allow.
    #[error(transparent)]
    Soft(#[from] LimitError),
}
