//! Sockets of callers, and the connections on them, within bounds.

mod callers;
mod connections;
mod files;
mod idle;
mod listener;
mod tls;
mod unread;

pub(super) use self::{
    connections::{CONNECTIONS, Connections, Protocol},
    files::connections,
    tls::Shown,
};
