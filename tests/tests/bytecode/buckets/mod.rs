//! Buckets of sources: which source gets one, and which debt it starts with. Their algorithms are in `meters`.

mod admission;
mod handover;
