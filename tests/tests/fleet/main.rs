//! One limit across a fleet.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bans;
mod busy;
mod doctor;
mod engine;
mod faults;
mod gossip;
mod hostile;
mod hosts;
mod in_use;
mod lost;
mod model;
mod requests;
mod rules;
mod stage;
mod start;
mod store;
mod tls;
