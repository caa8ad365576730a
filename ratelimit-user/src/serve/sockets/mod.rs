//! Sockets of callers, and the connections on them, within bounds.

mod connections;
mod listener;
mod tls;

pub(super) use self::{connections::Connections, listener::Listener, tls::Shown};
