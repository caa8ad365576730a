//! Repeats the cached refusals of a cell.

use ratelimit_common::{
    cells::{
        cached_refusal::{CachedRefusal, WITHOUT_ROOM},
        refused_sample::{self, Refused},
    },
    limits::policy::{DROP, SHADOW},
    maps::control::Control,
    reason::Reason,
};

use crate::{
    bpf::{
        control, settings,
        verifier::{given, key},
    },
    maps::{
        buckets,
        cells::{self, Cell},
        control as control_map,
        rules::lists,
        sliding_logs, this_cpu,
    },
    meters::interface_capacity,
    packet::context::{Context, OF_A_PEER, Verdict},
    shares::refused,
};

/// Returns the verdict on a packet that a cached refusal refuses, and counts the packet. If its source has own
/// connections, it writes that and the reason into the context, and counts nothing: the packet's connection decides.
#[inline(always)]
pub fn repeat(cell: &Cell, context: &mut Context, control: &Control) -> Option<Verdict> {
    let (refusal, slot) = cell.refusal_of(context.refusal_hash)?;
    let clock = context.clock(control);
    let amount = if settings::has_costs() && refusal.counts_packets() { context.cost() } else { context.length() };
    if !refusal.refuses(context.refusal_hash, control::generation(control), clock.units(), amount) {
        if refusal.is_old(clock.units()) {
            slot.put(refusal.ended(clock.units()));
        }
        return None;
    }
    if refusal.is_precise() && !refusal.is_ahead(clock.read_again()) {
        return None;
    }
    let action = if settings::is_on(&settings::ACTIONS_ON) { refusal.action() } else { DROP };
    let reason = if settings::has_leases() { refusal.reason() } else { refusal.without_shares() };
    // The bucket counts packets that pass although they are over the limit.
    if settings::is_on(&settings::ELASTIC_ON) && action == WITHOUT_ROOM && interface_capacity::has_room(context) {
        return None;
    }
    // Packets that pass in shadow must still pass the limit of unknown sources.
    if settings::is_on(&settings::ACTIONS_ON) && action == SHADOW && settings::limits_unknown() {
        return None;
    }
    if settings::spares_own() && refusal.is_of_a_peer() {
        context.reason = reason;
        context.note_own(OF_A_PEER);
    } else {
        count(context, refusal);
    }
    Some(Verdict { reason, action })
}

/// Counts a packet that the cached refusal of its source refuses, after its connection was asked about.
#[inline(never)]
pub fn count_later(context: &Context) {
    if let Some(cell) = cells::get(context.hash)
        && let Some((refusal, _)) = cell.refusal_of(context.refusal_hash)
    {
        count(context, refusal);
    }
}

#[inline(always)]
fn count(context: &Context, refusal: CachedRefusal) {
    if let Some(cpu) = this_cpu::get() {
        match refused_sample::skip(cpu.refused_skipped.load(), context.tick) {
            Some(skipped) => cpu.refused_skipped.store(skipped),
            None => {
                count_in_bucket(context, refusal.check);
            }
        }
    }
    if settings::is_on(&settings::LISTS_ON) && refusal.without_shares() == Reason::Listed {
        lists::count_hit(refusal.list(), context.length());
    }
}

/// Counts a refused packet in the bucket of its source, perhaps for others too.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn count_in_bucket(context: *const Context, check: u64) -> u32 {
    let (Some(context), Some(cpu), Some(control)) = (given(context), this_cpu::get(), control_map::get()) else {
        return 0;
    };
    let refused = Refused { skipped: cpu.refused_skipped.load(), counted: cpu.refused_counted.load() };
    let (refused, packets) = refused.count(context.tick, control.seed[0]);
    cpu.refused_skipped.store(refused.skipped);
    cpu.refused_counted.store(refused.counted);
    let source = buckets::billed(key(&context.source));
    if settings::has_leases() {
        // Another service may be billed.
        let hash = if settings::has_services() { source.hash(&control.seed) } else { context.hash };
        refused::count_cached(context, hash, packets, check);
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
