//! The share of a limit that a fleet leaves a source on this host. It is charged beside the source's own limit, so it
//! can only slow the source.
//!
//! A lease with less than the whole limit is charged first. If another limit then refuses the packet, the lease gets the
//! charge back. A lease of the whole limit is charged last, because it only counts what passes.

pub mod lease;
pub mod refused;
