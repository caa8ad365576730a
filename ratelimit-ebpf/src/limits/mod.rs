//! Asks the limits of a source. The arithmetic of a single limit belongs in `meters`.

pub mod ask;
pub mod pair;
pub mod parents;
pub mod payment;
pub mod source_bucket;
pub mod sums;
pub mod windowed;
