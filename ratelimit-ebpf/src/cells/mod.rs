//! The stage in front of the buckets: cached refusals and known sources of a cell. Buckets
//! belong in `buckets`.
//!
//! A cell admits packets within its share of the burst, or repeats a cached refusal. Only a source's own bucket
//! refuses. So a neighbour in the cell costs a source at most the cell's share, plus the debt that a new bucket starts
//! with. While the budget for buckets is spent, the cell decides alone about sources without a bucket.
//!
//! If three offenders share one cell, the bucket of the third is asked each time. Its refusal takes a place in one of
//! sixteen cases. Each of them keeps its rate.

pub mod cached_refusal;
pub mod learned_rate;
pub mod proven_sources;
pub mod unknown_rate;
pub mod unknown_sources;
