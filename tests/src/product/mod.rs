//! The product's programs: its commands, its daemon, and systemd around it.

pub(crate) mod daemon;
pub(crate) mod manager;
pub(crate) mod ratelimit;
pub(crate) mod trace;
