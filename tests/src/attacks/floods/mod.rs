//! Attacks by the number of packets or sources. An attack by what is in a packet belongs in `frames`.

pub(super) mod ban_table;
pub(super) mod budget;
pub(super) mod contention;
pub(super) mod customer;
pub(super) mod known_sources;
pub(super) mod new_sources;
pub(super) mod parents;
pub(super) mod proofs;
pub(super) mod slow_limit;
