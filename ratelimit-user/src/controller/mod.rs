//! What runs as a process that stays, and what it shares with commands: the daemon, undo, confirmation, events, metrics
//! and the host's part in a fleet. Reading and writing maps belongs to `dataplane`.

pub mod change;
pub mod confirm;
mod connections;
pub(crate) mod crowdsec;
pub mod daemon;
pub mod downloads;
pub mod events;
pub(crate) mod fleet;
pub(crate) mod group_socket;
pub mod metrics;
pub mod notify;
pub mod socket;
pub mod state;
pub(crate) mod stops;
pub(crate) mod tasks;
pub(crate) mod view;
