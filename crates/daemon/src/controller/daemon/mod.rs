//! The daemon. It waits for changes of its file, signals, requests and interfaces, and has `change` apply the file.
//! Packets are limited without it.
//!
//! One thread waits, and serves the socket for metrics. A second one applies the file, because that waits for the lock of
//! the pins, while the watchdog must hear from the daemon. It ends when it has nothing to do for some seconds, as others do
//! that read metrics or write the state file. Services for tables of the file have threads of their own while the file has
//! the table. The service manager hears *ready* once the file is in force, and *reloading* and *ready* around a reload,
//! before the requester gets its answer.

mod answers;
mod clock;
mod feeds;
mod in_force;
mod links;
mod log;
mod memory;
mod messages;
mod minute;
mod network;
mod pace;
mod rights;
pub mod run;
mod saver;
mod state;
mod watch;
