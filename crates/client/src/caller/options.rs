//! Servers, and how they are asked.

use std::time::Duration;

use super::{address::Address, balance::Balance, encryption::Authority, token::Token};

/// A server, what proves it and its caller, and its weight.
#[derive(Debug, Clone)]
pub struct Server {
    /// Where it is.
    #[doc(hidden)]
    pub address: Address,
    /// What proves the caller.
    #[doc(hidden)]
    pub token: Option<Token>,
    pub(super) authority: Option<Authority>,
    pub(super) weight: u16,
}

impl Server {
    /// Returns a server of weight 1. If its address is `https://`, an authority that the system trusts must have signed
    /// its certificate.
    #[must_use]
    pub fn new(address: Address) -> Self {
        Self { address, token: None, authority: None, weight: 1 }
    }

    /// Returns the server with the token of this caller. It goes only over `https://`, or within this host.
    #[must_use]
    pub fn with_token(self, token: Token) -> Self {
        Self { token: Some(token), ..self }
    }

    /// Returns the server with the authority of its certificate. Those of the system are not trusted then.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn with_authority(self, authority: Authority) -> Self {
        Self { authority: Some(authority), ..self }
    }

    /// Returns the server with another weight, at least 1. A double weight gets double the requests.
    #[must_use]
    pub fn with_weight(self, weight: u16) -> Self {
        Self { weight: weight.max(1), ..self }
    }
}

/// How servers are asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// How a server is chosen among several.
    pub balance: Balance,
    /// How long one server has for its answer: 250 ms.
    pub try_time: Duration,
    /// How long all servers together have: 500 ms.
    pub total_time: Duration,
    /// The most questions to one server at a time: 256. Each has a connection. Further ones wait, within the same time.
    pub calls: usize,
    /// The longest jitter of [`wait`](super::Caller::wait) after the first refusal: 50 ms. It doubles with each refusal.
    pub backoff: Duration,
    /// The longest jitter of [`wait`](super::Caller::wait) at all: 10 s.
    pub longest_backoff: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            balance: Balance::RoundRobin,
            try_time: Duration::from_millis(250),
            total_time: Duration::from_millis(500),
            calls: 256,
            backoff: Duration::from_millis(50),
            longest_backoff: Duration::from_secs(10),
        }
    }
}
