//! What keeps a configuration file in force.

pub mod apply;
pub mod confirm;
pub mod daemon;
mod difference;
pub(crate) mod interfaces;
pub mod metrics;
pub mod socket;
pub(crate) mod undo;
mod watch;
