//! Replaces the running program or its maps without a gap. Which features a program needs is decided above.

pub mod migration;
pub mod pinned;
pub mod replace;
pub mod resize;
pub mod staging;
