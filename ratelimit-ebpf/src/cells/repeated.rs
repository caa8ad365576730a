//! Packets that are refused as before: counts them, and draws whose refusals keep their places.

use ratelimit_common::cells::{
    cached_refusal::CachedRefusal,
    refused_sample::{self, Refused},
};

use crate::{
    bpf::{
        random, settings,
        verifier::{given, key},
    },
    maps::{buckets, control, sliding_logs, this_cpu},
    packet::context::Context,
    shares::refused,
};

/// One of so many refusals displaces that of another source. If all took turns, each packet would need a bucket.
const DISPLACING: u64 = 16;

/// Returns whether this CPU has refused a packet as before within the last minute.
#[inline(always)]
pub(super) fn is_recent(context: &Context) -> bool {
    this_cpu::get().is_some_and(|cpu| refused_sample::is_recent(cpu.refused_skipped.load(), context.tick))
}

/// Returns whether a refusal displaces another. Of the same number, each draw is another.
#[inline(always)]
pub(super) fn draw(number: u64) -> bool {
    // The clock stands still between two ticks.
    let Some(cpu) = this_cpu::get() else { return false };
    let repeated = cpu.refused_skipped.load().wrapping_add(cpu.refused_counted.load());
    random::one_of(DISPLACING, number ^ repeated)
}

/// Counts a packet by the reason and the action in the `check` of a cached refusal.
#[inline(always)]
pub(super) fn count(context: &Context, check: u64) {
    if let Some(cpu) = this_cpu::get() {
        match refused_sample::skip(cpu.refused_skipped.load(), context.tick) {
            Some(skipped) => cpu.refused_skipped.store(skipped),
            None => {
                count_in_bucket(context, check);
            }
        }
    }
}

/// Counts a refused packet in the bucket of its source, perhaps for others too.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn count_in_bucket(context: *const Context, check: u64) -> u32 {
    let (Some(context), Some(cpu), Some(control)) = (given(context), this_cpu::get(), control::get()) else {
        return 0;
    };
    let refused = Refused { skipped: cpu.refused_skipped.load(), counted: cpu.refused_counted.load() };
    let (refused, packets) = refused.count(context.tick, control.seed[0]);
    cpu.refused_skipped.store(refused.skipped);
    cpu.refused_counted.store(refused.counted);
    let source = buckets::billed(key(&context.source));
    if settings::has_leases() {
        // Another service may be billed.
        refused::count_cached(context, source.hash(&control.seed), packets, check);
    }
    let log = if settings::has_sliding_logs() { sliding_logs::find(&source) } else { None };
    if let Some(bucket) = log.map(|log| &log.bucket).or_else(|| buckets::find(&source)) {
        if refused.is_flood() {
            bucket.counts.note_samples();
        }
        let action = CachedRefusal { until: 0, check }.action();
        bucket.counts.count_refused(context.tick, action, packets, packets * u64::from(context.length()));
    }
    0
}
