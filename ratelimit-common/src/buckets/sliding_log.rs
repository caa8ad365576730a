//! A source's entry in the map of sliding logs. See [`crate::meters::sliding_log`] for the arithmetic.

use crate::{boundary, buckets::bucket::Bucket, meters::sliding_log::PLACES};

/// One entry of the map of sliding logs: a bucket that only counts, and the log.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Log {
    /// Counters of the source. Its states are not used.
    pub bucket: Bucket,
    /// Number of admitted packets.
    pub admitted: u64,
    /// Times of the last admitted packets. See [`Place`](crate::meters::sliding_log::Place).
    pub places: [u64; PLACES as usize],
}
boundary!(Log, size 592);
