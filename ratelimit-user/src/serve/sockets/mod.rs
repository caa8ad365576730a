//! Sockets of callers, and the connections on them, within bounds.

mod connections;
mod first_call;
mod listener;

pub(super) use self::connections::{Connections, Protocol};
