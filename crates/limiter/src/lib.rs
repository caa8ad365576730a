//! Limits for requests: may this client do this now?
//!
//! Applications, gateways and proxies ask the [`Limiter`] before they serve a request. It has the algorithms of the
//! limits for packets, and those that only requests can have. It does no I/O, reads no clock, and must contain nothing of
//! ratelimit but `ratelimit-common`. The server for requests uses it, and so do applications that limit by themselves.
//!
//! ```
//! use ratelimit_limiter::{Algorithm, Limit, Limiter, Rate, Rule};
//!
//! const SECOND: u64 = 1_000_000_000;
//! let per_minute = Limit::new(Rate { amount: 3, period: 60 * SECOND }, None, Algorithm::SlidingLog)?;
//! let rule = Rule::new("create-url", [per_minute])?.with_values("operation", ["createURL"]).by(["user"]);
//! // The seed must be random and secret.
//! let limiter = Limiter::new([rule], [1, 2]);
//!
//! let request = [("operation", "createURL"), ("user", "17")];
//! for second in 0..3 {
//!     assert!(limiter.check(&request, 1, second * SECOND).is_allowed);
//! }
//! let refused = limiter.check(&request, 1, 10 * SECOND);
//! assert!(!refused.is_allowed);
//! assert_eq!(refused.limit.and_then(|usage| usage.wait).map(|wait| wait.as_secs()), Some(50));
//! // Another user, and another operation.
//! assert!(limiter.check(&[("operation", "createURL"), ("user", "18")], 1, 10 * SECOND).is_allowed);
//! assert!(limiter.check(&[("operation", "deleteURL"), ("user", "17")], 1, 10 * SECOND).is_allowed);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![warn(missing_docs)]

mod active;
mod ask;
mod attributes;
mod client;
mod decision;
pub mod identity;
mod limit;
mod limiter;
mod record;
mod rule;
mod rule_error;
mod shares;
mod table;
mod tally;
mod throttle;
mod verdict;

pub use ratelimit_common::limits::limit::Rate;

pub use self::{
    attributes::Attributes,
    client::{ADDRESS, Hashed},
    decision::{Decision, Usage},
    identity::{client_of, identity},
    limit::{Algorithm, Limit, LimitError},
    limiter::Limiter,
    record::{Counted, Record},
    rule::{MEMORY, Rule},
    rule_error::RuleError,
    shares::{Due, Shares},
    tally::Tally,
    throttle::Throttle,
    verdict::{Cause, MOST_LIMITS, Refusal},
};

#[cfg(test)]
mod tests;
