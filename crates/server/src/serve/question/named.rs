//! The connection of a client, as its caller names it.

use ratelimit_protocol::stops::Connection;

/// What a caller says about the client's connection to this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::serve) enum Named {
    /// Nothing.
    #[default]
    Nothing,
    /// The connection. This caller may not name one.
    NotAllowed,
    /// The connection.
    Connection(Connection),
}

impl From<Option<Connection>> for Named {
    fn from(connection: Option<Connection>) -> Self {
        connection.map_or(Self::Nothing, Self::Connection)
    }
}
