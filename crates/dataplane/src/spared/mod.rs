//! The prefixes of this host that nothing denies: which they are, the map with them, and what is not applied to them. What
//! the program does with them is in `ratelimit_common::rules::spared`.

pub mod force;
pub mod place;
pub mod renew;
pub mod spans;
pub mod unapplied;
