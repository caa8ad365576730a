//! What keeps a configuration file in force.

pub mod apply;
pub mod daemon;
mod difference;
pub mod metrics;
pub mod socket;
mod watch;
