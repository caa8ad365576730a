//! What can go wrong, and what to do.

use std::time::Duration;

#[cfg(feature = "tls")]
use ratelimit_base::trust::Problem;
use thiserror::Error;

/// The most servers of a caller.
pub const MOST_SERVERS: usize = 64;

/// Reason why an address is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AddressError {
    /// None of the three forms.
    #[error("{0}: expected unix:/PATH, https://HOST:PORT or http://HOST:PORT, without a path behind the port")]
    Form(String),
    /// A path that no socket can have.
    #[error("{0}: expected an absolute path of at most 107 bytes after unix:")]
    Path(String),
}

/// Reason why a token is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a token is one word of letters, digits and punctuation marks: give the text whose hash the server has")]
pub struct TokenError;

/// Reason why an authority is not accepted.
#[cfg(feature = "tls")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(transparent)]
pub struct AuthorityError(#[from] pub(super) Problem);

/// Reason why a caller cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CallerError {
    /// No server, or too many.
    #[error("expected 1 to {MOST_SERVERS} servers, not {0}: name at least one that `ratelimit serve` prints")]
    Servers(usize),
    /// An address that makes no URI.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// A token for a connection that others can read.
    #[error("{0}: the connection is not encrypted, so others could read the token: use https://")]
    Exposed(String),
    /// An authority for a connection without a certificate.
    #[error("{0}: the connection is not encrypted, so no authority is needed: use https://, or name no authority")]
    NotEncrypted(String),
    /// An encrypted server, in a build without encryption.
    #[error(
        "{0}: ratelimit-client is built without `tls`: add this feature, or use unix:/PATH or http:// in a trusted network"
    )]
    WithoutTls(String),
    /// No authority at all.
    #[error("this system trusts no authority: name that of the server (--ca, or `with_authority` in a program)")]
    NoAuthority,
}

/// Reason why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConnectError {
    /// Nobody accepts it.
    #[error(
        "cannot connect to {server}: {error}: does `ratelimit serve` run there, and may this user open the socket?"
    )]
    Refused {
        /// The server.
        server: String,
        /// The error of the system.
        error: String,
    },
    /// Keys could not be agreed.
    #[error("no encrypted connection to {server}: {error}")]
    Encryption {
        /// The server.
        server: String,
        /// Why.
        error: EncryptionError,
    },
}

/// Reason why a connection is not encrypted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EncryptionError {
    /// The authority is unknown.
    #[error("its certificate is of no trusted authority: name its authority (--ca, or `with_authority` in a program)")]
    Untrusted,
    /// The certificate has ended.
    #[error("its certificate has ended: replace `tls-cert` there, or set the clock of this host")]
    Ended,
    /// The certificate has not begun.
    #[error("its certificate is not valid yet: set the clocks of both hosts")]
    Early,
    /// The certificate has other names. The text is empty, or says which ones.
    #[error("its certificate has another name{0}: use that name in the address, or replace `tls-cert` there")]
    Name(String),
    /// The certificate has no name.
    #[error("its certificate has no name: replace `tls-cert` there by one with this name as subjectAltName")]
    NoName,
    /// The certificate is that of an authority.
    #[error(
        "its certificate is that of an authority (CA:TRUE), not of a server: replace `tls-cert` there by one with \
         basicConstraints=CA:FALSE"
    )]
    Authority,
    /// Something else is wrong with the certificate.
    #[error("its certificate is not accepted: {0}: replace `tls-cert` there")]
    Certificate(String),
    /// The server answers without encryption.
    #[error("it answers without encryption: is this the right port, or is it http:// there?")]
    Plain,
    /// No common version.
    #[error("it offers neither TLS 1.2 nor TLS 1.3 with a usual cipher: is it `ratelimit serve`?")]
    Version,
    /// The connection ended before.
    #[error("the connection ended while keys were agreed ({0}): does it have `tls-cert`?")]
    Closed(String),
}

/// Reason why no server has decided a request. The request is allowed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Undecided {
    /// All servers have failed lately, and are left out for a while. It has the last failure.
    #[error("all servers are left out after failures: {}", last(.0.as_deref()))]
    NoServer(Option<Box<Undecided>>),
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
    /// No connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A connection that broke before the answer.
    #[error("{server} has broken the connection: {error}: does `ratelimit serve` run there, and is it http:// there?")]
    Connection {
        /// The server.
        server: String,
        /// The error of the connection.
        error: String,
    },
    /// A token that is missing, unknown, or not for questions.
    #[error("{server} does not let this process ask: {error}")]
    Denied {
        /// The server.
        server: String,
        /// Why.
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

fn last(failure: Option<&Undecided>) -> String {
    failure.map_or_else(|| "does `ratelimit serve` run?".to_owned(), |failure| format!("the last one: {failure}"))
}
