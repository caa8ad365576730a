//! What keeps a configuration file in force.

pub mod apply;
pub mod daemon;
mod difference;
pub mod socket;
mod watch;
