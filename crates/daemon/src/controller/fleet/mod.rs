//! This host as a part of a fleet: it reports its busy sources to the engine, and grants the leases that it gets.

mod by_hash;
mod call;
mod connection;
mod divided;
mod host;
mod load;
mod measure;
mod messages;
pub mod service;
mod sources;
mod told;
mod traffic;
mod watched;
