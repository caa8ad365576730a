//! The product's programs: its commands, its daemon, and systemd, Redis and nginx around it.

pub(crate) mod authority;
pub(crate) mod daemon;
pub(crate) mod encryption;
pub(crate) mod limit_row;
pub(crate) mod manager;
pub(crate) mod nginx;
pub(crate) mod ratelimit;
pub(crate) mod redis;
pub mod schema;
pub(crate) mod sharing;
pub(crate) mod trace;
pub mod unpacked;
