//! How the hosts of a fleet share a limit: what a host reports of a source, and the share of the limit that it gets.

#[cfg(any(test, feature = "user"))]
pub mod demand;
#[cfg(any(test, feature = "user"))]
pub mod share;
