//! The cached refusals of a cell: repeats them, and writes them.

use ratelimit_common::{
    cells::{
        cached_refusal::{CachedRefusal, LONGEST, Refusal, WITHOUT_ROOM},
        refused_sample::{self, Refused},
    },
    limits::{
        limit::SECOND,
        policy::{COARSE, DROP, Policy, SHADOW},
    },
    maps::control::Control,
    meters::gcra::{self, Units},
    reason::Reason,
};

use crate::{
    bpf::{
        random, settings,
        verifier::{given, key},
    },
    maps::{
        buckets,
        cells::{self, Cell, RefusalSlot},
        control,
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

/// One of so many refusals displaces the cached refusal of another source.
const DISPLACING: u64 = 16;

/// Time for which it is cached that every packet is refused. Then the source's rule is looked for again.
const OF_A_VERDICT: Units = gcra::units(64 * SECOND);

/// Twice the amount by which an end is rounded. While the coarse clock stands still, a refusal that ends sooner lasts
/// as long as this.
const SHORTEST: Units = 1 << 21;

/// Places of the amount and of the kind of limit, above the action and the clock's bit, in the last argument of
/// [`cache_refusal`].
const AMOUNT_SHIFT: u32 = 8;
const BY_BYTES_SHIFT: u32 = 3;

/// Caches that the context's source is over a limit, of packets or of bytes, for as long as `wait`.
#[inline(always)]
pub fn cache(context: &Context, cell: &Cell, policy: &Policy, wait: Units, by_bytes: bool) {
    let precise = policy.flags & COARSE == 0;
    let wait = if precise { wait } else { wait.max(SHORTEST) };
    let action = if policy.elastic != 0 { WITHOUT_ROOM } else { policy.over_limit };
    let amount = match by_bytes {
        true => context.length(),
        false if settings::has_costs() => context.cost(),
        false => 0,
    };
    let how = u64::from(amount) << AMOUNT_SHIFT
        | u64::from(by_bytes) << BY_BYTES_SHIFT
        | u64::from(action) << 1
        | u64::from(precise);
    cache_refusal(context, cell, wait, context.reason, how);
}

/// Caches that every packet of the context's source is refused for this reason: by the list with this number, if it is
/// [`Reason::Listed`].
#[inline(always)]
pub fn cache_verdict(context: &Context, cell: &Cell, reason: Reason, list: u32) {
    cache_refusal(context, cell, OF_A_VERDICT, reason, u64::from(list) << AMOUNT_SHIFT | u64::from(DROP) << 1);
}

/// Returns whether the cell has a place for a refusal of the context's source.
#[inline(always)]
#[must_use]
pub fn has_place(context: &Context, cell: &Cell) -> bool {
    has_place_for(context, cell)
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn has_place_for(context: *const Context, cell: *const Cell) -> bool {
    let (Some(context), Some(cell)) = (given(context), given(cell)) else { return false };
    place(cell, context.refusal_hash, context.resolution.generation(), context.now).is_some()
}

/// Caches a refusal for as long as `wait`, unless a rule or the [longest](LONGEST) refusal ends sooner, or other
/// sources keep the places. `how` holds the amount, the kind of limit, the
/// action, and in its lowest bit whether the precise clock counts.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn cache_refusal(context: *const Context, cell: *const Cell, wait: Units, reason: Reason, how: u64) -> u32 {
    let (Some(context), Some(cell)) = (given(context), given(cell)) else { return 0 };
    let spares_own = settings::spares_own() && reason != Reason::Denied;
    let (hash, generation) = (context.refusal_hash, context.resolution.generation());
    let now = gcra::units(context.now);
    let Some((old, slot)) = place(cell, hash, generation, context.now) else { return 0 };
    if !old.is_about(hash) && old.is_in_force(generation, now) {
        this_cpu::count(|cpu| &cpu.displaced_refusals);
    }
    let left = context.resolution.ends().saturating_sub(context.now).min(LONGEST >> gcra::FRACTION_BITS);
    // The host may open a connection to the source meanwhile.
    let left = if spares_own { left.min(SECOND) } else { left };
    let until = now.wrapping_add(wait.min(gcra::units(left)));
    let (action, precise, amount) = ((how >> 1) as u8 & 3, how & 1 != 0, (how >> AMOUNT_SHIFT) as u32);
    let of_a_peer = spares_own && context.own() >= OF_A_PEER;
    let by_bytes = how >> BY_BYTES_SHIFT & 1 != 0;
    let refusal =
        CachedRefusal::new(Refusal { hash, generation, until, precise, of_a_peer, reason, by_bytes, action, amount });
    slot.put(refusal);
    0
}

/// Returns the slot for a refusal of this source, and its content. Of three refused sources, the first two mostly keep
/// the slots: if all took turns, each packet would need a bucket.
#[inline(always)]
fn place(cell: &Cell, hash: u64, generation: u32, now: u64) -> Option<(CachedRefusal, &RefusalSlot)> {
    if let Some(found) = cell.refusal_of(hash) {
        return Some(found);
    }
    let [first, second] = &cell.refusals;
    let is_free = |refusal: CachedRefusal| !refusal.is_in_force(generation, gcra::units(now));
    let (is_one, refusal) = (settings::limits_unknown(), first.refusal());
    if is_free(refusal) {
        return Some((refusal, first));
    }
    if !is_one && is_free(second.refusal()) {
        return Some((second.refusal(), second));
    }
    let last = if is_one || hash >> 63 == 0 { first } else { second };
    // The clock stands still between two ticks.
    let cpu = this_cpu::get()?;
    let repeated = cpu.refused_skipped.load().wrapping_add(cpu.refused_counted.load());
    random::one_of(DISPLACING, hash ^ now ^ repeated).then_some((last.refusal(), last))
}
