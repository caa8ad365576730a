//! Counters, events and samples. Nothing here decides about a packet.

pub mod counters;
pub mod events;
pub mod samples;
