//! Every map with its value type and its accessors. No arithmetic and no verdict belongs here.
//!
//! aya creates every map at load, so a map of a feature that is off has one entry. A parent needs no map: it is a
//! policy of its own, and its bucket is an entry of [`buckets`] whose key names class, scope and policy.

pub mod bans;
pub mod buckets;
pub mod cells;
pub mod control;
pub mod counters;
pub mod events;
pub mod exchange;
pub mod interface_capacities;
pub mod learned_rate;
pub mod leases;
pub mod narrow_parts;
pub mod own_connections;
pub mod resize;
pub mod rules;
pub mod shared;
pub mod sliding_logs;
pub mod this_cpu;
