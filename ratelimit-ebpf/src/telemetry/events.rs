//! Tells of what happens, for whoever reads it. Off the way of packets that pass, and of those that a note refuses.

use ratelimit_common::{
    buckets::bucket::IN_SHADOW,
    limits::limit::SECOND,
    maps::event::{self, BANNED, Event, PER_SECOND, QUIET, REFUSED, SAMPLE, SHADOWED, Written},
    meters::gcra::{self, Answer, Units},
};

use crate::{
    bpf::{
        atomic::Word,
        verifier::{given, key},
    },
    cells::cell,
    maps::{
        all::{EVENTS, EVENTS_WRITTEN},
        counts,
    },
    meters::{
        charge::{self, Charge, FEW_TRIES},
        token_bucket::Tracked,
    },
    packet::context::Visit,
};

/// An [`Event`] as the CPUs share it.
pub type Slot = [Word; 8];
const _: () = assert!(size_of::<Slot>() == size_of::<Event>());

/// [`Written`] as the CPUs share it.
#[repr(C)]
pub struct Head {
    events: Word,
    left_out: Word,
    budget: Word,
    reserved: Word,
}
const _: () = assert!(size_of::<Head>() == size_of::<Written>());

/// What one event costs of a second.
const COST: Units = gcra::units(SECOND / PER_SECOND);
/// As many as a second has may come at once.
const BURST: Units = gcra::units(SECOND);

/// A limit has refused this packet, and this action is what becomes of it. That is told of where its source was not refused of late: before the
/// refusal is noted.
#[inline(always)]
pub fn refused(visit: &Visit, bucket: &Tracked, action: u8) {
    if is_new(visit, bucket) {
        let kind = if counts::is_shadow(action) { SHADOWED } else { REFUSED };
        let dropped = if bucket.counts.can_count(action) { bucket.counts.dropped() & !IN_SHADOW } else { 0 };
        write_event(visit, kind, 0, dropped);
    }
}

/// The source of this packet is banned until that time.
#[inline(always)]
pub fn banned(visit: &Visit, until: u64) {
    write_event(visit, BANNED, until, 0);
}

#[inline(always)]
fn is_new(visit: &Visit, bucket: &Tracked) -> bool {
    if cell::is_on()
        && let Some(cell) = cell::cell(visit.note_hash)
        && let Some((note, _)) = cell.about(visit.note_hash)
    {
        // A deny that has been lifted was no refusal by a limit.
        return note.is_of_all() || note.ended_before(gcra::units(visit.now), gcra::units(QUIET));
    }
    (bucket.counts.dropped() & !IN_SHADOW).is_multiple_of(SAMPLE)
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn write_event(visit: *const Visit, kind: u32, until: u64, dropped: u64) -> u32 {
    let (Some(visit), Some(head)) = (given(visit), EVENTS_WRITTEN.get(0)) else { return 0 };
    let Some(number) = take(head, gcra::units(visit.now)) else {
        head.left_out.add(1);
        return 0;
    };
    let Some(slot) = EVENTS.get(event::place(number)) else { return 0 };
    let [number_word, rest @ ..] = slot;
    // Exchanges, since nothing else keeps a reader from seeing the number before the rest of it.
    let _ = number_word.compare_exchange(number_word.load(), 0);
    let (source, reason) = (key(&visit.source), visit.reason as u32);
    let event = Event { number, time: visit.now, source, until, dropped, kind, reason };
    let [_, words @ ..] = event.words();
    for (place, word) in rest.iter().zip(words) {
        place.store(word);
    }
    let _ = number_word.compare_exchange(0, number);
    1
}

/// The number of one more event, if there may be one. Where several CPUs have one at the same time, some are left out.
#[inline(always)]
fn take(head: &Head, now: Units) -> Option<u64> {
    let budget = charge::exchange::<FEW_TRIES>(&head.budget, |seen| match gcra::ask(seen, now, COST, BURST, BURST) {
        Answer::Admit(next) => Some(next),
        Answer::Refuse => None,
        // A clock that was set back, as tests do.
        Answer::Cap(_) => Some(now.wrapping_add(COST)),
    });
    let mut number = 0;
    let counted = charge::exchange::<FEW_TRIES>(&head.events, |seen| {
        number = seen.wrapping_add(1);
        (budget == Charge::Paid).then_some(number)
    });
    (counted == Charge::Paid).then_some(number)
}
