//! The words of a cell: levels, cached refusals, known sources, and filters of buckets. Also what is remembered of
//! connections that this host has opened, and the learned rate of unknown sources. Buckets belong in `buckets`.

pub mod bucket_filter;
pub mod cached_refusal;
pub mod cell;
pub mod known_source;
pub mod learned_rate;
pub mod own_connection;
pub mod refused_sample;
