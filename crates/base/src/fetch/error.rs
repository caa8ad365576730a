//! What can go wrong on the way to an answer.

use std::{error::Error, time::Duration};

use crate::text::excerpt::message;

/// Reason why there is no answer, or no whole body.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// No connection.
    #[error("cannot connect to {server}: {error}")]
    Connect {
        /// The host and the port.
        server: String,
        /// Why.
        error: String,
    },
    /// No encrypted connection.
    #[error("no encrypted connection to {server}: {error}")]
    Encryption {
        /// The host and the port.
        server: String,
        /// Why.
        error: String,
    },
    /// The system trusts nobody.
    #[error("this system trusts no authority: install its certificates (package ca-certificates), or name a ca-file")]
    NoAuthority,
    /// The server breaks the connection, or its answer is no HTTP.
    #[error("the answer of {server} cannot be read: {error}")]
    Broken {
        /// The host and the port.
        server: String,
        /// Why.
        error: String,
    },
    /// The time is over.
    #[error("the answer is not complete after {} seconds", .0.as_secs())]
    Late(Duration),
    /// The body is too large.
    #[error("the answer has more than {0} bytes")]
    Large(u64),
    /// More redirects than allowed.
    #[error("the server redirects more than {0} times")]
    Redirects(usize),
    /// A redirect leads nowhere, or to another kind of address.
    #[error("the server redirects to no address of http or https")]
    Location,
    /// A redirect gives up encryption, or leads to this host or its link.
    #[error("the server redirects from https to http, or to this host or its link, which is not followed")]
    Downgrade,
    /// The system has no thread or file for the request.
    #[error("the system refuses: {0}")]
    System(String),
}

/// Returns the error for a connection that breaks.
pub(super) fn broken(server: &str, error: &hyper::Error) -> FetchError {
    FetchError::Broken { server: server.to_owned(), error: innermost(error) }
}

/// Returns the text of the innermost error, which says most.
pub(super) fn innermost(mut error: &(dyn Error + 'static)) -> String {
    while let Some(source) = error.source() {
        error = source;
    }
    message(&error.to_string())
}
