//! The cells in front of the buckets. Buckets belong in `buckets`.

pub mod cell;
pub mod level;
pub mod unknown_sources;
