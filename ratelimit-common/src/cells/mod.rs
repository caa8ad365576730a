//! The words of a cell: levels, cached refusals and known sources. Buckets belong in `buckets`.

pub mod cached_refusal;
pub mod cell;
pub mod dropped;
pub mod known_source;
