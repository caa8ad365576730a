//! Asks `ratelimit serve` whether requests may go on, from any Rust service.
//!
//! A failure of the servers is never that of the service: if no server decides in time, the request is allowed, and the
//! answer says why.
//!
#![cfg_attr(feature = "tls", doc = "```no_run")]
#![cfg_attr(not(feature = "tls"), doc = "```ignore")]
//! use std::time::Duration;
//!
//! use ratelimit_client::caller::{Authority, Caller, Options, Question, Server};
//!
//! # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
//! let authority = Authority::of_pem(&std::fs::read("/etc/ratelimit/ca.pem")?)?;
//! let token = std::fs::read_to_string("/etc/ratelimit/gateway.token")?.parse()?;
//! let caller = Caller::new(
//!     [
//!         Server::new("unix:/run/ratelimit-check/check.sock".parse()?).with_weight(3),
//!         Server::new("https://limits.example:8443".parse()?).with_token(token).with_authority(authority),
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
//! - A connection to `https://` uses TLS 1.2 or 1.3, and needs the feature `tls`. A token never goes over a network without encryption.

mod address;
mod answer;
mod backoff;
mod balance;
mod client;
mod connector;
#[cfg(feature = "tls")]
mod encryption;
#[cfg(not(feature = "tls"))]
#[path = "absent_encryption.rs"]
mod encryption;
mod error;
mod options;
mod question;
mod servers;
mod token;
mod transport;

#[doc(hidden)]
pub use self::connector::Connector;
pub use self::{
    address::Address,
    answer::{Answer, Answers},
    balance::Balance,
    client::Caller,
    error::{AddressError, CallerError, ConnectError, EncryptionError, MOST_SERVERS, TokenError, Undecided},
    options::{Options, Server},
    question::Question,
    token::Token,
};
#[cfg(feature = "tls")]
pub use self::{encryption::Authority, error::AuthorityError};

#[cfg(test)]
mod tests;
