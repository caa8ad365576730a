//! What runs as a process that stays, and what it shares with commands: the daemon, undo, confirmation, events, metrics
//! and the host's part in a fleet. Reading and writing maps belongs to `dataplane`.

pub mod change;
pub mod confirm;
mod connections;
pub mod crowdsec;
pub mod daemon;
pub mod downloads;
pub mod events;
pub mod fleet;
pub mod group_socket;
pub mod metrics;
pub mod socket;
pub mod state;
pub mod stops;
pub mod tasks;
pub mod view;
