//! What keeps a configuration file in force.

pub mod apply;
pub mod confirm;
pub mod daemon;
mod difference;
pub mod events;
pub(crate) mod interfaces;
pub mod journal;
mod links;
mod manager;
pub mod metrics;
mod request;
pub mod socket;
mod syslog;
pub(crate) mod undo;
mod watch;
mod words;
