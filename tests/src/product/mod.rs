//! The product's programs: its commands, its daemon, and systemd around it.

pub(crate) mod daemon;
pub(crate) mod limit_row;
pub(crate) mod manager;
pub(crate) mod ratelimit;
pub mod schema;
pub(crate) mod trace;
