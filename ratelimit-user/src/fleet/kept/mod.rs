//! What the engine keeps besides records: denied sources, shared rules, and a seed.

pub mod bans;
pub mod rules;
pub mod seed;
pub mod stops;
