//! What a service asks.

use std::{collections::BTreeMap, net::SocketAddr};

use ratelimit_protocol::stops::Connection;
use serde::Serialize;

/// One request to decide: its attributes and its cost.
///
/// A question has at most 32 attributes and 64 KiB as JSON. No server decides another question, so the request is allowed.
/// A service bounds the values that its clients choose, such as paths, because a client could evade its limit with a huge
/// one. `ip` is an address. Servers leave out a port, and an `ip` that is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Question {
    attributes: BTreeMap<String, String>,
    cost: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    connection: Option<Connection>,
}

/// Several requests, as the server reads them.
#[derive(Debug, Serialize)]
pub(super) struct Batch<'a> {
    pub(super) requests: &'a [Question],
}

impl Question {
    /// Creates a question of cost 1.
    #[must_use]
    pub fn new<N: Into<String>, V: Into<String>>(attributes: impl IntoIterator<Item = (N, V)>) -> Self {
        let attributes = attributes.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        Self { attributes, cost: 1, connection: None }
    }

    /// Returns the question of a request that counts as so many.
    #[must_use]
    pub fn with_cost(self, cost: u32) -> Self {
        Self { cost, ..self }
    }

    /// Returns the question with the TCP connection over which the client asks. Rules with `stop-at-nic` need it. The
    /// server reads it only from callers of its Unix socket. If a proxy has opened the connection, leave it out.
    #[must_use]
    pub fn with_connection(self, local: SocketAddr, remote: SocketAddr) -> Self {
        Self { connection: Some(Connection { local, remote }), ..self }
    }
}
