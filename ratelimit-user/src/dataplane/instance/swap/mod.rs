//! Puts another program or other maps in place of the running ones without a gap.

pub(crate) mod features;
pub(crate) mod migration;
pub mod replace;
pub(crate) mod resize;
pub(crate) mod staging;
