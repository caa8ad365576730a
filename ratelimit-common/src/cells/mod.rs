//! The words of a cell: levels, cached refusals and known sources. Also what is
//! remembered of connections that this host has opened. Buckets belong in `buckets`.

pub mod cached_refusal;
pub mod cell;
pub mod dropped;
pub mod known_source;
pub mod own_connection;
