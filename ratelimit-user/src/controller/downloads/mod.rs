//! Fetches the lists of the file that lie on servers, and keeps a copy of each one. The copies are followed like any other
//! file of a list. How a list becomes rules belongs to `change`.
//!
//! A thread of the daemon decides when, and judges what comes. A process without privileges talks to the server. So what
//! the server sends is parsed by a process that can open neither the pins nor the files of root.

mod child;
mod copy;
mod judge;
mod parent;
mod privileges;
mod protocol;
mod schedule;
mod service;

pub use self::child::child;
pub(crate) use self::service::{Service, Shown};
