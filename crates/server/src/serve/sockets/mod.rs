//! Sockets of callers, and the connections on them, within bounds.

mod answers;
mod callers;
mod connections;
mod drained;
mod files;
mod idle;
mod listener;
mod readable;
mod row;
mod tls;
mod unread;
mod waiting;

pub(super) use self::{
    answers::Answers,
    connections::{CONNECTIONS, Connections, Protocol},
    files::connections,
    readable::UNREADABLE,
    tls::Shown,
};
