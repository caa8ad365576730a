//! What can go wrong with an engine.

use std::time::Duration;

use redis::{ErrorKind, RedisError};

use crate::reason::reason;

/// What keeps the engine from answering.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A text is no URL of a server.
    #[error(
        "expected \"gossip\", or the URL of a server: redis://HOST:PORT, or rediss://HOST:PORT for encrypted connections"
    )]
    NoUrl,
    /// The URL makes no sense.
    #[error("expected a URL such as redis://10.0.0.1:6379: {0}")]
    Url(String),
    /// The server refuses.
    #[error("{0}")]
    Server(String),
    /// The server cannot be reached, or its answer has not arrived as a whole.
    #[error("{0}")]
    Lost(String),
    /// The server has not answered in time.
    #[error("no answer within {} ms", .0.as_millis())]
    Silent(Duration),
    /// Several calls together take too long.
    #[error("it is slow: not everything is written in time")]
    Slow,
    /// The answer makes no sense.
    #[error("its answer cannot be used: {0}")]
    Garbage(&'static str),
    /// Only a server can do that.
    #[error("gossip has no server for that")]
    NeedsServer,
    /// This host cannot listen.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// Where.
        address: std::net::SocketAddr,
        /// Why not.
        error: std::io::Error,
    },
    /// No other host is alive.
    #[error("no other host answers{}", if *.is_refused { ", and one has another password" } else { "" })]
    Alone {
        /// Whether datagrams with another password have arrived.
        is_refused: bool,
    },
    /// A host reports more than others may keep.
    #[error("{0} reports more than fits")]
    Excess(String),
}

impl From<RedisError> for Error {
    fn from(error: RedisError) -> Self {
        let is_answer = matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension);
        let kind = if is_answer { Self::Server } else { Self::Lost };
        kind(reason(&error))
    }
}

impl Error {
    /// Returns why none of several servers is the engine. Each one has its address.
    pub(super) fn of_all(mut failures: Vec<(String, Self)>) -> Self {
        if failures.len() > 1 {
            // How long each was given differs, and is no other reason.
            let why =
                |error: &Self| if let Self::Silent(_) = error { "no answer".to_owned() } else { error.to_string() };
            let each = failures.iter().map(|(server, error)| format!("{server}: {}", why(error)));
            return Self::Lost(each.collect::<Vec<_>>().join("; "));
        }
        failures.pop().map_or_else(|| Self::Lost("there is no server".to_owned()), |(_, error)| error)
    }

    /// Returns whether a call can have succeeded that has failed like this.
    #[must_use]
    pub fn leaves_open(&self) -> bool {
        matches!(self, Self::Lost(_) | Self::Silent(_) | Self::Garbage(_))
    }
}
