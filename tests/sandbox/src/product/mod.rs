//! The product's binary: its commands, and its daemon.

pub(crate) mod daemon;
pub(crate) mod ratelimit;
