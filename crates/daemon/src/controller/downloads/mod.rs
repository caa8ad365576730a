//! Fetches the lists of the file that lie on servers, and keeps a copy of each one. The daemon reads its file again when a
//! copy is new. How a list becomes rules belongs to `change`.
//!
//! A process without privileges talks to the server, and parses what it sends. That process can open neither the pins nor
//! the files of root. It writes one prefix per line. A thread of the daemon decides when to ask, checks these lines, and
//! keeps them.

mod child;
mod copy;
mod judge;
mod parent;
mod privileges;
mod protocol;
mod schedule;
mod service;

pub use self::{
    child::child,
    service::{Service, Shown},
};
