//! Repeats the cached refusals of a cell.

use ratelimit_common::{
    cells::{cached_refusal::WITHOUT_ROOM, dropped::Dropped},
    limits::policy::{DROP, SHADOW},
    maps::control::Control,
    reason::Reason,
};

use crate::{
    bpf::{control, settings},
    maps::{cells::Cell, rules::lists},
    meters::interface_capacity,
    packet::{context::Context, verdict::Verdict},
};

/// Returns the verdict on a packet that a cached refusal refuses, and counts the packet.
#[inline(always)]
pub fn repeat(cell: &Cell, context: &Context, control: &Control) -> Option<Verdict> {
    let (refusal, slot) = cell.refusal_of(context.refusal_hash)?;
    let clock = context.clock(control);
    let amount = if settings::has_costs() && refusal.counts_packets() { context.cost() } else { context.length() };
    let is_full = Dropped(slot.dropped.load()).is_full();
    if !refusal.refuses(control::generation(control), clock.units(), amount) || is_full {
        if refusal.is_old(clock.units()) {
            slot.put(refusal.ended(clock.units()));
        }
        return None;
    }
    if refusal.is_precise() && !refusal.is_ahead(clock.read_again()) {
        return None;
    }
    let action = if settings::is_on(&settings::ACTIONS_ON) { refusal.action() } else { DROP };
    // The bucket counts packets that pass although they are over the limit.
    if settings::is_on(&settings::ELASTIC_ON) && action == WITHOUT_ROOM && interface_capacity::has_room(context) {
        return None;
    }
    // Packets that pass in shadow must still pass the limit of unknown sources.
    if settings::is_on(&settings::ACTIONS_ON) && action == SHADOW && settings::limits_unknown() {
        return None;
    }
    slot.dropped.add(Dropped::one(context.length()));
    if settings::is_on(&settings::LISTS_ON) && refusal.reason() == Reason::Listed {
        lists::count_hit(refusal.list(), context.length());
    }
    Some(Verdict { reason: refusal.reason(), action })
}
