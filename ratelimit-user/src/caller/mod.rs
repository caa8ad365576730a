//! Asks `ratelimit serve` whether requests may go on, from any Rust service.
//!
//! A failure of the servers is never that of the service: if no server decides in time, the request is allowed, and the
//! answer says why.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use ratelimit::caller::{Caller, Options, Question, Server};
//!
//! # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
//! let caller = Caller::new(
//!     [
//!         Server::new("unix:/run/ratelimit-check/check.sock".parse()?).with_weight(3),
//!         Server::new("http://127.0.0.1:8080".parse()?),
//!     ],
//!     Options::default(),
//! )?;
//!
//! let question = Question::new([("operation", "createURL"), ("user", "17")]);
//! let answer = caller.check(&question).await;
//! if let Some(reason) = &answer.undecided {
//!     eprintln!("allowed without a decision: {reason}");
//! }
//! if !answer.is_allowed {
//!     println!("429, Retry-After: {:?}", answer.retry_after);
//! }
//!
//! // A job that has time waits for its turn instead, for at most a minute.
//! let answer = caller.wait(&question.with_cost(2), Duration::from_secs(60)).await;
//! assert!(answer.is_allowed, "costs more than its limit, or has to wait for longer than a minute");
//! # Ok(())
//! # }
//! ```
//!
//! Several servers count by themselves, unless they share limits. So a client may get its limit from each of them.
//!
//! - [`Balance`] says which server is asked. [`Options`] has all times.
//! - A server that fails is left out for 100 ms. This time doubles with each failure, up to 30 s, and is cut by up to a half
//!   at random. Then one request at a time probes the server.
//! - A question that no server can read is no failure of the server.

mod address;
mod answer;
mod backoff;
mod balance;
mod client;
mod connector;
mod error;
mod options;
mod question;
mod servers;
mod transport;

pub use self::{
    address::Address,
    answer::{Answer, Answers},
    balance::Balance,
    client::Caller,
    error::{AddressError, CallerError, MOST_SERVERS, Undecided},
    options::{Options, Server},
    question::Question,
};

#[cfg(test)]
mod tests;
