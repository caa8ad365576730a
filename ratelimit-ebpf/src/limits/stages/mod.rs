//! Charges both stages of one limit: levels and a bucket. Which limits a packet has belongs in `limits`.

pub mod charged;
pub mod pair;
pub mod payment;
pub mod two_stages;
