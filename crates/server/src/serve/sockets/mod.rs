//! Sockets of callers, and the connections on them, within bounds.

mod answers;
mod callers;
mod connections;
mod files;
mod idle;
mod listener;
mod row;
mod tls;
mod unread;

pub(super) use self::{
    answers::Answers,
    connections::{CONNECTIONS, Connections, Protocol},
    files::connections,
    tls::Shown,
};
