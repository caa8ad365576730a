//! Finds the policy of a source. Applying the policy belongs in `limits`.
//!
//! Expired rules stay in the maps until the user side replaces or deletes them, and are skipped here. A source that a
//! rule may match has a bucket within the budget, even if it is denied. So `sources` lists it, and its rule is not
//! looked up for each packet.

pub mod ban_lookup;
pub mod cache;
pub mod identify;
mod list_lookup;
pub mod lookup;
