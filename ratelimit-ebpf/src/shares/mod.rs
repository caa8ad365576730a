//! The share of a limit that a fleet leaves a source on this host. It is charged beside the source's own limit, so it
//! can only slow the source.
//!
//! Nothing is charged while the lease has no room. If other CPUs charge the lease between the check and the charge, the
//! charge of the own limit stays.

pub mod ask;
mod find;
pub mod refused;
