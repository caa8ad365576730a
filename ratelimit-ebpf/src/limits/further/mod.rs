//! Limits beside a source's own: its parents, and the allowance of a soft limit. Each has a key of its own. A source's
//! own limit belongs in `limits`.
//!
//! Such a limit has the same two stages as a source's own: levels, and a bucket for the rest of the burst. So a packet
//! within the cell's share needs no bucket, and a recycled bucket starts with the debt of its levels. Without cells,
//! the bucket decides with the whole burst.

pub mod charge;
pub mod check;
pub(crate) mod limit;
