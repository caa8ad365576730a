//! Packets of a source with own connections, while its refusal is cached.

use crate::{cells::cached_refusal, maps::buckets, packet::context::Context};

/// Counts such a packet in its source's bucket, as spared or as refused.
#[inline(never)]
pub(super) fn count(context: &Context, is_spared: bool) {
    if !is_spared {
        cached_refusal::count_later(context);
        return;
    }
    if let Some(bucket) = buckets::find(&buckets::billed(context.source)) {
        bucket.counts.count_passed(context.tick, 1, u64::from(context.length()));
    }
}
