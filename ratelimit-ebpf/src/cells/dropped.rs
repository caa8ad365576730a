//! Moves the counts of cached refusals to buckets.

use ratelimit_common::cells::dropped::Dropped;

use crate::{
    bpf::{
        settings,
        verifier::{given, handed},
    },
    maps::{
        buckets::Bucket,
        cells::{Cell, RefusalSlot},
    },
    packet::context::Context,
};

/// Moves the counts of the cached refusals of a packet's source to its bucket. Without a bucket, a full count is given up, so that
/// the refusal continues.
///
/// There are two cached refusals of one source if two CPUs wrote at the same time.
#[inline(always)]
pub fn settle(cell: Option<&Cell>, context: &Context, bucket: Option<&Bucket>) {
    if settings::has_cells()
        && let Some(cell) = cell
    {
        settle_refusals(cell, context.refusal_hash, handed(bucket), context.tick);
    }
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn settle_refusals(cell: *const Cell, hash: u64, bucket: *const Bucket, now: u64) -> u32 {
    let Some(Cell { refusals: [first, second], .. }) = given(cell) else { return 0 };
    settle_one(first, hash, given(bucket), now);
    if !settings::limits_unknown() {
        settle_one(second, hash, given(bucket), now);
    }
    0
}

#[inline(always)]
fn settle_one(slot: &RefusalSlot, hash: u64, bucket: Option<&Bucket>, now: u64) {
    let (is_due, refusal) = (bucket.is_some() || Dropped(slot.dropped.load()).is_full(), slot.refusal());
    if !is_due || !refusal.is_about(hash) {
        return;
    }
    let dropped = Dropped(slot.dropped.take());
    // A count from before such packets began or ceased to pass in shadow is given up.
    if let Some(bucket) = bucket.filter(|bucket| dropped.0 != 0 && bucket.counts.can_count(refusal.action())) {
        bucket.counts.count_dropped(now, refusal.action(), dropped.packets(), dropped.bytes());
    }
}
