//! Finds the policy of a source. What the policy then decides belongs in `limits`.

pub mod cache;
pub mod cost;
pub mod lookup;
pub mod match_word;
pub mod source_key;
