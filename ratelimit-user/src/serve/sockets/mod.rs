//! Sockets of callers, and the connections on them, within bounds.

mod connections;
mod listener;

pub(super) use self::{connections::Connections, listener::Listener};
