//! The product's programs: its commands, its daemon, and systemd around it.

pub mod daemon;
pub mod manager;
pub mod ratelimit;
