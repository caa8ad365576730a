//! What runs as a process that stays, and what it shares with commands: the daemon, undo, confirmation, events, metrics
//! and the host's part in a fleet. Reading and writing maps belongs to `dataplane`.

pub mod change;
pub mod confirm;
mod connections;
#[cfg(feature = "crowdsec")]
pub mod crowdsec;
#[cfg(not(feature = "crowdsec"))]
#[path = "absent/crowdsec.rs"]
pub mod crowdsec;
pub mod daemon;
#[cfg(feature = "lists")]
pub mod downloads;
#[cfg(not(feature = "lists"))]
#[path = "absent/downloads.rs"]
pub mod downloads;
pub mod events;
#[cfg(feature = "fleet")]
pub mod fleet;
#[cfg(not(feature = "fleet"))]
#[path = "absent/fleet.rs"]
pub mod fleet;
pub mod group_socket;
mod lists_of_others;
pub mod metrics;
pub mod socket;
pub mod state;
pub mod stops;
pub mod tasks;
pub mod view;
