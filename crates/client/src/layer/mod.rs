//! A tower layer that asks a [`Limiter`](ratelimit_limiter::Limiter) about each request, within the service itself.
//!
//! A request that is allowed goes on, after the wait of its queue. Another one gets the answer of a function, such as
//! [`too_many_requests`]. Each process counts by itself. Processes that share limits ask a server by
//! [`caller`](crate::caller) instead.
//!
//! ```
//! use std::sync::Arc;
//!
//! use axum::{Router, body::Body, extract::Request, routing::post};
//! use ratelimit_client::layer::{Clock, Current, RateLimit, too_many_requests};
//! use ratelimit_limiter::{Algorithm, Limit, Limiter, Rate, Rule};
//!
//! let per_minute = Limit::new(Rate { amount: 3, period: 60_000_000_000 }, None, Algorithm::SlidingLog)?;
//! let rule = Rule::new("create-url", [per_minute])?.with_values("method", ["POST"]).by(["user"]);
//! // The seed must be random and secret.
//! let limiter = Arc::new(Current::new(Limiter::new([rule], [1, 2])));
//!
//! // The service must know the user already. A header that a client may forge tells nothing.
//! let question = |request: &Request| {
//!     let user = request.extensions().get::<String>().cloned().unwrap_or_default();
//!     ([("user", user), ("method", request.method().to_string())], 1)
//! };
//! let clock = Clock::start();
//! let layer = RateLimit::new(Arc::clone(&limiter), move || clock.now(), question, too_many_requests::<Body>);
//! let app: Router = Router::new().route("/urls", post(|| async { "created" })).layer(layer);
//!
//! // Other rules, at any time. Clients keep what they have used.
//! let per_minute = Limit::new(Rate { amount: 5, period: 60_000_000_000 }, None, Algorithm::SlidingLog)?;
//! let rule = Rule::new("create-url", [per_minute])?.with_values("method", ["POST"]).by(["user"]);
//! limiter.change([rule], clock.now());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Once per minute, call [`Limiter::forget`](ratelimit_limiter::Limiter::forget), so that clients that are idle cost no memory.

mod clock;
mod current;
mod refusal;
mod service;

pub use self::{
    clock::Clock,
    current::Current,
    refusal::too_many_requests,
    service::{RateLimit, RateLimited},
};

#[cfg(test)]
mod tests;
