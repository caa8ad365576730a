//! The Unix sockets through which commands reach the daemon, and an attach that waits for its confirmation. What a
//! request causes belongs to the processes that answer.
//!
//! The socket's lock is in `/run`, so that a daemon cannot take the socket of a running one. The daemon lock of
//! `dataplane` is among the pins, because daemons in two containers share only the pins.

pub mod client;
pub mod folder;
pub mod incoming;
pub mod request;
pub mod rules;
pub mod server;
