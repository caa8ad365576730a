//! What keeps a configuration file in force.

pub mod confirm;
pub mod daemon;
pub mod notify;

pub mod change;
pub mod events;
pub mod metrics;
