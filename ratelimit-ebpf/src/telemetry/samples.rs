//! Records of sources within their limit, so that `sources` can list the busy ones.
//!
//! One of 256 admitted packets is recorded in the source's bucket. A source without a limit is counted exactly while it
//! has a bucket.

use ratelimit_common::maps::control::{Control, SAMPLE_RATE};

use crate::{
    bpf::{
        random, settings,
        verifier::{given, key},
    },
    buckets::{admission, create},
    cells::bucket_filter,
    maps::buckets,
    packet::context::Context,
};

/// Returns whether a packet that passed is recorded: one in [`SAMPLE_RATE`], drawn by a number that senders cannot
/// predict.
#[inline(always)]
#[must_use]
pub fn is_due(hash: u64, level: u64) -> bool {
    settings::is_on(&settings::SAMPLE_ON) && random::one_of(SAMPLE_RATE, hash ^ level)
}

/// Records one packet for the whole sample, within the budget. Bans may rely on that count: while a cell has room, the
/// buckets of its sources owe nothing of the handed-over debt.
#[inline(always)]
pub fn record(context: &Context, control: &Control) {
    record_packets(context, control, SAMPLE_RATE);
}

/// Counts a packet of a source without a limit, exactly, as long as its bucket has room.
#[inline(always)]
pub fn observe(context: &Context, control: &Control) {
    record_packets(context, control, 1);
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn record_packets(context: *const Context, control: *const Control, packets: u64) -> u32 {
    let (Some(context), Some(control)) = (given(context), given(control)) else { return 0 };
    let source = key(&context.source);
    let mut found = buckets::find(&source);
    if found.is_none() && settings::is_on(&settings::SAMPLE_ON) && admission::admits_record(control, context.tick) {
        create::of_source(&source, context.hash, context.resolution, control, context.tick);
        found = buckets::find(&source);
    }
    if let Some(bucket) = found {
        if settings::has_cells() {
            bucket_filter::note(context.hash);
        }
        bucket.counts.count_passed(context.tick, packets, packets * u64::from(context.length()));
    }
    0
}
