//! What packets leave behind for the operator: counters, samples and events. Nothing here decides about a packet.
//!
//! **Counters.** With one interface attached, packets are counted in `COUNTERS`. With several, they are counted in
//! `INTERFACE_COUNTERS` by the interface's slot, and no longer in `COUNTERS`. So each packet is counted in one place.
//! An interface can use four slots, by its index. If others hold all four, it is counted with *all others*.
//!
//! **Samples.** One of 256 admitted packets is recorded in the source's bucket, so that `sources` can list the busy ones.
//! A source without a limit is counted exactly while it has a bucket.
//!
//! **Events** go into an array, round and round: sources that are refused for the first time in ten seconds, and bans.
//! Packets that pass, or that a cached refusal drops, never reach this code. A ring buffer would have one reader and
//! would be full without one. Here each reader has its own position, sees from the numbers which events it missed, and
//! affects nothing. A number is exchanged before and after the rest of an event, so a reader detects a half-written
//! event.

use aya_ebpf::programs::XdpContext;
use ratelimit_common::{
    limits::limit::SECOND,
    maps::{
        control::{Control, SAMPLE_RATE},
        event::{BANNED, Event, PER_SECOND, QUIET, REFUSED, SAMPLE, SHADOWED},
    },
    meters::gcra::{self, Units},
    reason::{REASONS, Reason},
};

use crate::{
    bpf::{
        clock::Clock,
        random, settings,
        verifier::{given, key},
    },
    buckets::create,
    maps::{
        buckets::{self, Bucket},
        cells::{self, Cell},
        control, counters,
        events::{self, Head},
        exchange::{FEW_TRIES, exchange},
    },
    meters::budget,
    packet::context::{Context, Verdict},
};

/// Counts one packet of `length` bytes. Packets that pass in shadow have counters of their own.
#[inline(always)]
pub fn count(ctx: &XdpContext, verdict: Verdict, length: u32) {
    let (reason, is_shadowed) = (verdict.reason as u32, verdict.is_shadowed());
    if settings::is_on(&settings::INTERFACES_ON) {
        count_by_interface(ctx.ingress_ifindex() as u32, reason, u32::from(is_shadowed), length);
        return;
    }
    let index = reason + if is_shadowed { REASONS as u32 } else { 0 };
    // An index below the map's size is always there. A packet must not fail without a counter.
    if let Some(counter) = counters::of_reason(index) {
        counter.add(length);
    }
}

/// Not inlined, so that LLVM does not use what the verifier cannot know: that there are few reasons.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn count_by_interface(interface: u32, reason: u32, is_shadowed: u32, length: u32) -> u32 {
    if !settings::is_on(&settings::INTERFACES_ON) {
        return 0;
    }
    let Some(counters) = counters::of_interface(interface) else { return 0 };
    let counters = if is_shadowed == 0 { &counters.done } else { &counters.shadow };
    if let Some(counter) = counters.get(reason as usize) {
        counter.add(length);
    }
    0
}

/// Returns whether a packet that passed is recorded: one in [`SAMPLE_RATE`], drawn by a number that senders cannot
/// predict.
#[inline(always)]
#[must_use]
pub fn is_sample_due(hash: u64, level: u64) -> bool {
    settings::is_on(&settings::SAMPLE_ON) && random::one_of(SAMPLE_RATE, hash ^ level)
}

/// Records one packet for the whole sample, within the budget. Bans may rely on that count: while a cell has room, the
/// buckets of its sources owe nothing of the handed-over debt.
#[inline(always)]
pub fn record_sample(context: &Context, control: &Control) {
    record_packets(context, control, SAMPLE_RATE);
}

/// Counts a packet of a source without a limit, exactly, as long as its bucket has room.
#[inline(always)]
pub fn count_unlimited(context: &Context, control: &Control) {
    record_packets(context, control, 1);
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn record_packets(context: *const Context, control: *const Control, packets: u64) -> u32 {
    let (Some(context), Some(control)) = (given(context), given(control)) else { return 0 };
    let source = key(&context.source);
    let mut found = buckets::find(&source);
    if found.is_none() && settings::is_on(&settings::SAMPLE_ON) && create::admits_record(control, context.tick) {
        create::of_source(&source, context.hash, context.resolution, control, context.tick);
        found = buckets::find(&source);
    }
    if let Some(bucket) = found {
        if settings::has_cells() {
            cells::note_used_bucket(context.hash);
        }
        bucket.counts.count_passed(context.tick, packets, packets * u64::from(context.length()));
    }
    0
}

/// Cost of one event in the budget of a second.
const COST: Units = gcra::units(SECOND / PER_SECOND);
/// Burst of the budget: the events of one second.
const BURST: Units = gcra::units(SECOND);

/// Writes that a limit has refused this packet, with the action, unless the source was refused shortly before. `cell`
/// holds its cached refusal, from before this packet's refusal is cached.
#[inline(always)]
pub fn report_refusal(context: &Context, cell: Option<&Cell>, bucket: &Bucket, action: u8) {
    if is_new_refusal(context, cell, bucket, action) {
        let kind = if counters::is_shadow(action) { SHADOWED } else { REFUSED };
        write_event(context, kind, 0, bucket.counts.refused(action));
    }
}

/// Writes that the source of this packet is banned until that time.
#[inline(always)]
pub fn report_ban(context: &Context, until: u64) {
    write_event(context, BANNED, until, 0);
}

#[inline(always)]
fn is_new_refusal(context: &Context, cell: Option<&Cell>, bucket: &Bucket, action: u8) -> bool {
    if let Some((refusal, _)) = cell.and_then(|cell| cell.refusal_of(context.refusal_hash)) {
        // A deny that was lifted is no refusal by a limit.
        let is_by_share = settings::has_leases() && refusal.reason() == Reason::OverShare;
        return refusal.refuses_everything() && !is_by_share
            || refusal.ended_before(gcra::units(context.now), gcra::units(QUIET));
    }
    bucket.counts.refused(action).is_multiple_of(SAMPLE)
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn write_event(context: *const Context, kind: u32, until: u64, dropped: u64) -> u32 {
    let (Some(context), Some(head)) = (given(context), events::head()) else { return 0 };
    let Some(number) = next_number(head, gcra::units(context.now)) else {
        head.left_out.add(1);
        return 0;
    };
    let Some(slot) = events::slot(number) else { return 0 };
    let [number_word, time, first, second, third, end, drops, what] = slot;
    // Exchanges, since nothing else keeps a reader from seeing the number before the rest of the event.
    let _ = number_word.compare_exchange(number_word.load(), 0);
    // Word by word, because the stack has no room for an event.
    let [one, two, three] = context.source.words();
    time.store(context.now);
    first.store(one);
    second.store(two);
    third.store(three);
    end.store(until);
    drops.store(dropped);
    what.store(Event::kind_and_reason(kind, context.reason as u32));
    let _ = number_word.compare_exchange(0, number);
    1
}

/// Returns the number of the next event, if the budget has room. If several CPUs have an event at the same time, some
/// are left out.
#[inline(always)]
fn next_number(head: &Head, now: Units) -> Option<u64> {
    let mut found = 0;
    let has_room = exchange::<FEW_TRIES>(&head.budget, |seen| {
        found = seen;
        budget::next(seen, now, COST, BURST)
    });
    if !has_room {
        budget::cut(&head.budget, found, now, BURST, || {
            control::get().map_or(now, |control| Clock::read(control).units())
        });
    }
    let mut number = 0;
    let is_counted = exchange::<FEW_TRIES>(&head.events, |seen| {
        number = seen.wrapping_add(1);
        has_room.then_some(number)
    });
    is_counted.then_some(number)
}
