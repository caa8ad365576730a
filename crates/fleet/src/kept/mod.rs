//! What the engine keeps besides records: denied sources, stopped clients, shared rules, what clients have used, and a seed.

pub mod bans;
pub mod followed;
pub mod limits;
pub mod rules;
pub mod seed;
pub mod stops;
pub mod usage;
