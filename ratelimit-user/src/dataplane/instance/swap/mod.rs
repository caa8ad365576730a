//! Replaces the running program or its maps without a gap. Which features a program needs is decided above.

pub(crate) mod migration;
pub mod pinned;
pub mod replace;
pub(crate) mod resize;
pub(crate) mod staging;
