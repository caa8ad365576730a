//! Packets of a source with own connections, while its refusal is cached.

use crate::{bpf::settings, cells::cached_refusal, maps::buckets, packet::context::Context};

/// Counts such a packet: in its source's bucket if it is spared, and in the cell otherwise.
#[inline(never)]
pub(super) fn count(context: &Context, is_spared: bool) {
    if !is_spared {
        cached_refusal::count_later(context);
        return;
    }
    let mut bucket = buckets::find(&context.source);
    if settings::has_services()
        && let Some(class) = bucket.and_then(|bucket| bucket.resolved().billed())
    {
        bucket = buckets::find(&context.source.of_class(class));
    }
    if let Some(bucket) = bucket {
        bucket.counts.count_passed(context.tick, 1, u64::from(context.length()));
    }
}
