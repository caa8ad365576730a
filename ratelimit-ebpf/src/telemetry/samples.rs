//! Records of sources that exceed nothing, so that the busy ones can be listed.

use ratelimit_common::{maps::control::SAMPLE_RATE, meters::gcra};

use crate::{
    bpf::{
        random, settings,
        verifier::{given, key},
    },
    buckets::admission,
    maps::all::CONTROL,
    packet::context::Visit,
    rules::cache,
};

/// Whether a packet that passed is one of those to be recorded: one in [`SAMPLE_RATE`], drawn by what nobody can foresee.
#[inline(always)]
#[must_use]
pub fn is_due(hash: u64, level: u64) -> bool {
    settings::is_on(&settings::SAMPLE_ON) && random::one_of(SAMPLE_RATE, hash ^ level)
}

/// Records one packet for all that it stands for, within the budget. Bans may go by that: where a cell has room, its sources' own buckets
/// owe nothing any more of what they were handed.
#[inline(always)]
pub fn record(visit: &Visit) {
    record_packets(visit, SAMPLE_RATE);
}

/// Counts a packet of a source that has no limit, exactly, as long as there is room for its bucket.
#[inline(always)]
pub fn observe(visit: &Visit) {
    record_packets(visit, 1);
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn record_packets(visit: *const Visit, packets: u64) -> u32 {
    let (Some(visit), Some(control)) = (given(visit), CONTROL.get(0)) else { return 0 };
    let source = key(&visit.source);
    let mut found = cache::find(&source);
    if found.is_none() && settings::is_on(&settings::SAMPLE_ON) && admission::admits_record(control, visit.tick) {
        let now = gcra::units(visit.now);
        // What fits its cell's part is no debt of the own bucket.
        admission::make(&source, now, now, visit.resolution);
        found = cache::find(&source);
    }
    if let Some(bucket) = found {
        bucket.counts.count_passed(packets, packets * u64::from(visit.length()));
    }
    0
}
