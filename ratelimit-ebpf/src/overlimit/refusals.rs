//! Writes into cells who is refused, and until when.

use ratelimit_common::{
    cells::{
        cached_refusal::{LONGEST, Note, Refusal, WITHOUT_ROOM},
        dropped::Dropped,
    },
    limits::policy::{COARSE, DROP, Policy},
    meters::gcra::{self, Units},
    reason::Reason,
};

use crate::{
    bpf::{
        random,
        verifier::{given, handed},
    },
    cells::{
        cell::{self, Cell, Noted},
        unknown_sources,
    },
    maps::this_cpu,
    meters::token_bucket::Tracked,
    packet::context::Visit,
    rules::cost,
};

/// One of so many refusals makes other sources' notes give way.
const DISPLACING: u64 = 16;

/// Twice what a note's end is rounded by. While the coarse clock stands, a refusal that ends sooner holds as long as that.
const SHORTEST: Units = 1 << 21;

/// Writes into the cell that this source is over its limit for as long as `wait`.
#[inline(always)]
pub fn write_for(visit: &Visit, policy: &Policy, wait: Units) {
    let precise = policy.flags & COARSE == 0;
    let wait = if precise { wait } else { wait.max(SHORTEST) };
    let action = if policy.elastic != 0 { WITHOUT_ROOM } else { policy.over_limit };
    let amount = match visit.reason {
        Reason::OverBytes => visit.length(),
        _ if cost::are_on() => visit.cost(),
        _ => 0,
    };
    write_note(visit, wait, visit.reason, u32::from(action) << 1 | u32::from(precise), amount);
}

/// Writes into the cell that this source is refused whatever it sends, for this reason.
#[inline(always)]
pub fn write_all(visit: &Visit, refusal: Reason) {
    write_note(visit, LONGEST, refusal, u32::from(DROP) << 1, 0);
}

/// Whether a refusal of this source would be noted.
#[inline(always)]
#[must_use]
pub fn is_kept(visit: &Visit) -> bool {
    is_note_kept(visit.note_hash, visit.resolution.generation(), visit.now)
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn is_note_kept(hash: u64, generation: u32, now: u64) -> bool {
    cell::cell(hash).is_some_and(|cell| place(cell, hash, generation, now).is_some())
}

/// Notes for as long as `wait`, unless a rule or the [longest](LONGEST) note ends sooner, or other sources keep the notes. What was counted for a
/// source that gives way is forgotten. `how` is the action, and in its lowest bit whether the precise clock counts.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn write_note(visit: *const Visit, wait: Units, reason: Reason, how: u32, amount: u32) -> u32 {
    let Some(visit) = given(visit) else { return 0 };
    let Some(cell) = cell::cell(visit.note_hash) else { return 0 };
    let (hash, generation, now) = (visit.note_hash, visit.resolution.generation(), gcra::units(visit.now));
    let Some((old, noted)) = place(cell, hash, generation, visit.now) else { return 0 };
    if !old.is_about(hash) {
        if let Some(own) = this_cpu::own().filter(|_| old.is_in_force(generation, now)) {
            own.displaced.increment();
        }
        noted.dropped.store(0);
    }
    let left = visit.resolution.ends().saturating_sub(visit.now).min(LONGEST >> gcra::FRACTION_BITS);
    let until = now.wrapping_add(wait.min(gcra::units(left)));
    let (action, precise) = ((how >> 1) as u8, how & 1 != 0);
    noted.put(Note::new(Refusal { hash, generation, until, precise, reason, action, amount }));
    0
}

/// Where a refusal of this source is noted, if it is, and what is there. Of three sources that are refused, those that were noted first keep
/// the notes for the most part: taking turns, none would be spared its bucket.
#[inline(always)]
fn place(cell: &Cell, hash: u64, generation: u32, now: u64) -> Option<(Note, &Noted)> {
    if let Some(found) = cell.about(hash) {
        return Some(found);
    }
    let [first, second] = &cell.notes;
    let is_free = |note: Note| !note.is_in_force(generation, gcra::units(now));
    let (is_one, note) = (unknown_sources::are_limited(), first.note());
    if is_free(note) && (is_one || first.dropped.load() == 0) {
        return Some((note, first));
    }
    // A count that nobody has moved yet stays, if it can.
    if !is_one && is_free(second.note()) {
        return Some((second.note(), second));
    }
    if is_free(note) {
        return Some((note, first));
    }
    let last = if is_one || hash >> 63 == 0 { first } else { second };
    random::one_of(DISPLACING, hash ^ now ^ last.dropped.load()).then_some((last.note(), last))
}

/// Moves what was counted beside the notes of this source to its own bucket. Where it has none, a count that is full is given up, so that the note
/// goes on. There are two notes of one source where two CPUs have written at once.
#[inline(always)]
pub fn settle(visit: &Visit, bucket: Option<&Tracked>) {
    if cell::is_on() {
        settle_notes(visit.note_hash, handed(bucket));
    }
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn settle_notes(hash: u64, bucket: *const Tracked) -> u32 {
    let Some(Cell { notes: [first, second], .. }) = cell::cell(hash) else { return 0 };
    settle_one(first, hash, given(bucket));
    if !unknown_sources::are_limited() {
        settle_one(second, hash, given(bucket));
    }
    0
}

#[inline(always)]
fn settle_one(noted: &Noted, hash: u64, bucket: Option<&Tracked>) {
    let (is_due, note) = (bucket.is_some() || Dropped(noted.dropped.load()).is_full(), noted.note());
    if !is_due || !note.is_about(hash) {
        return;
    }
    let dropped = Dropped(noted.dropped.take());
    // What was counted before a rule let such packets pass, or no longer did, is given up.
    if let Some(bucket) = bucket.filter(|bucket| dropped.0 != 0 && bucket.counts.can_count(note.action())) {
        bucket.counts.count_dropped(note.action(), dropped.packets(), dropped.bytes());
    }
}
