//! Metrics for monitoring: `/metrics` on a socket in the daemon's folder, and on an address if the file has one. Each
//! metric family belongs to `families`.
//!
//! Metrics have a thread of their own and are read without the instance's lock. So scrapes, commands and the daemon
//! never wait for each other. The text format 0.0.4 is written by hand: the library prometheus-client writes
//! OpenMetrics only, in which the textfile collector and promtool's check see no types of counters. HTTP uses hyper
//! without its clients, and `ratelimit metrics` speaks HTTP/1.0.

pub mod client;
mod families;
mod listener;
mod scraper;
mod server;
mod service;

pub use self::{scraper::Shown, service::Service};
