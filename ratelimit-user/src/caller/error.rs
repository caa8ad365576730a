//! What can go wrong, and what to do.

use std::time::Duration;

use thiserror::Error;

/// The most servers of a caller.
pub const MOST_SERVERS: usize = 64;

/// Reason why an address is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AddressError {
    /// Neither of both forms.
    #[error("{0}: expected unix:/PATH or http://HOST:PORT, such as http://127.0.0.1:8080")]
    Form(String),
    /// A path that no socket can have.
    #[error("{0}: expected an absolute path of at most 107 bytes after unix:")]
    Path(String),
}

/// Reason why a caller cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CallerError {
    /// No server, or too many.
    #[error("expected 1 to {MOST_SERVERS} servers, not {0}: name at least one that `ratelimit serve` prints")]
    Servers(usize),
    /// An address that makes no URI.
    #[error(transparent)]
    Address(#[from] AddressError),
}

/// Reason why no server has decided a request. The request is allowed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Undecided {
    /// All servers have failed lately.
    #[error("all servers are left out after failures: does `ratelimit serve` run?")]
    NoServer,
    /// No answer in time.
    #[error("{server} has not answered within {time:?}: is its host overloaded?")]
    Late {
        /// The server.
        server: String,
        /// How long it had.
        time: Duration,
    },
    /// Too many questions of this caller at a time.
    #[error("{server} has as many questions of this process as its options allow: raise `calls`, or add a server")]
    Busy {
        /// The server.
        server: String,
    },
    /// No connection, or a broken one.
    #[error("cannot ask {server}: {error}: does `ratelimit serve` run there, and may this user open the socket?")]
    Connection {
        /// The server.
        server: String,
        /// The error of the connection.
        error: String,
    },
    /// An answer that is none of `ratelimit serve`.
    #[error("{server} has answered {status} without a decision: is it a `ratelimit serve`?")]
    Answer {
        /// The server.
        server: String,
        /// The status of the answer.
        status: u16,
    },
    /// A question that no server can read. It is no failure of a server.
    #[error("no server can decide this: {0}: check the attributes")]
    Question(String),
}
