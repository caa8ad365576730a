//! How the hosts of a fleet share a limit: what a host reports of a source, the share of the limit that it gets, and the
//! lease by which the program keeps to it.

#[cfg(any(test, feature = "user"))]
pub mod account;
#[cfg(any(test, feature = "user"))]
pub mod demand;
pub mod lease;
#[cfg(any(test, feature = "user"))]
pub mod share;
