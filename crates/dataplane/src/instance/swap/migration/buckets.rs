//! Buckets of layout 18, which had one count for packets that were dropped and for those that passed in shadow.

use std::mem::offset_of;

use ratelimit_common::{
    buckets::{bucket::Bucket, sliding_log::Log},
    maps::names,
};

use super::layout::{Layout, bytes, from_bytes};
use crate::Error;

/// Converts a value of a map to another layout.
pub(super) fn value(name: &str, to: &Layout, from: &Layout, value: &[u8], is_per_cpu: bool) -> Result<Vec<u8>, Error> {
    // Both kinds of entries begin with a bucket.
    const { assert!(offset_of!(Log, bucket) == 0) };
    let mut value = to.value(from, value, is_per_cpu);
    let has_buckets = [names::BUCKETS, names::SLIDING_LOGS].contains(&name);
    if has_buckets
        && !from.has_field("would_drop")
        && let Some(first) = value.get_mut(..size_of::<Bucket>())
    {
        let bucket: Bucket = from_bytes(first)?;
        first.copy_from_slice(bytes(&bucket.with_shadow_apart()));
    }
    Ok(value)
}
