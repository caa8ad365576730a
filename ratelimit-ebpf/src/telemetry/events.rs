//! Writes events into an array, round and round: sources that are refused for the first time in ten seconds, and bans.
//!
//! Packets that pass, or that a cached refusal drops, never reach this code. A ring buffer would have one reader and
//! would be full without one. Here each reader has its own position, sees from the numbers which events it missed, and
//! affects nothing. A number is exchanged before and after the rest of an event, so a reader detects a half-written
//! event.

use ratelimit_common::{
    limits::limit::SECOND,
    maps::event::{BANNED, Event, PER_SECOND, QUIET, REFUSED, SAMPLE, SHADOWED},
    meters::gcra::{self, Units},
    reason::Reason,
};

use crate::{
    bpf::{clock::Clock, settings, verifier::given},
    maps::{
        buckets::Bucket,
        cells::Cell,
        control,
        exchange::{FEW_TRIES, exchange},
        telemetry::{
            counts,
            events::{self, Head},
        },
    },
    meters::budget,
    packet::context::Context,
};

/// Cost of one event in the budget of a second.
const COST: Units = gcra::units(SECOND / PER_SECOND);
/// Burst of the budget: the events of one second.
const BURST: Units = gcra::units(SECOND);

/// Writes that a limit has refused this packet, with the action, unless the source was refused shortly before. `cell`
/// holds its cached refusal, from before this packet's refusal is cached.
#[inline(always)]
pub fn refused(context: &Context, cell: Option<&Cell>, bucket: &Bucket, action: u8) {
    if is_new(context, cell, bucket, action) {
        let kind = if counts::is_shadow(action) { SHADOWED } else { REFUSED };
        write_event(context, kind, 0, bucket.counts.refused(action));
    }
}

/// Writes that the source of this packet is banned until that time.
#[inline(always)]
pub fn banned(context: &Context, until: u64) {
    write_event(context, BANNED, until, 0);
}

#[inline(always)]
fn is_new(context: &Context, cell: Option<&Cell>, bucket: &Bucket, action: u8) -> bool {
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
    let Some(number) = take(head, gcra::units(context.now)) else {
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
fn take(head: &Head, now: Units) -> Option<u64> {
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
