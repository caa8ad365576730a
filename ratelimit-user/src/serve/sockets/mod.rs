//! Sockets of callers, and the connections on them, within bounds.

mod connections;
mod idle;
mod listener;
mod tls;

pub(super) use self::{
    connections::{Connections, Protocol},
    tls::Shown,
};
