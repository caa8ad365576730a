//! Writes into cells who is refused, and until when.

use ratelimit_common::{
    dropped::Dropped,
    gcra::{self, Units},
    note::{LONGEST, Note, Refusal},
    policy::COARSE,
    reason::Reason,
};

use crate::{
    bucket::Tracked,
    clock::Clock,
    cpu,
    front::{self, Cell, Noted},
    pair::{self, Pair},
    scatter, strangers,
    visit::Visit,
};

/// One of so many refusals makes other sources' notes give way.
const DISPLACING: u64 = 16;

/// Twice what a note's end is rounded by. While the coarse clock stands, a refusal that ends sooner holds as long as that.
const SHORTEST: Units = 1 << 21;

/// Writes into the cell that this source is refused, and until when, unless other sources keep the notes.
#[inline(always)]
pub fn write_for(visit: &Visit<'_>, pair: &Pair<'_>, clock: &Clock<'_>, reason: Reason, length: u32) {
    if !is_kept(visit) {
        return;
    }
    let precise = visit.policy().is_none_or(|policy| policy.flags & COARSE == 0);
    let wait = pair::wait(pair, clock);
    write(visit, if precise { wait } else { wait.max(SHORTEST) }, precise, reason, length);
}

#[inline(never)]
fn is_kept(visit: &Visit<'_>) -> bool {
    let cell = front::cell(visit.note_hash);
    cell.is_some_and(|cell| place(cell, visit.note_hash, visit.resolution.generation(), visit.now).is_some())
}

/// Notes for as long as `wait`, unless a rule or the [longest](LONGEST) note ends sooner. What was counted for a source that gives way is
/// forgotten.
#[inline(never)]
pub fn write(visit: &Visit<'_>, wait: Units, precise: bool, reason: Reason, length: u32) {
    let Some(cell) = front::cell(visit.note_hash) else { return };
    let (hash, generation, now) = (visit.note_hash, visit.resolution.generation(), gcra::units(visit.now));
    let Some((old, noted)) = place(cell, hash, generation, visit.now) else { return };
    if !old.is_about(hash) {
        if let Some(own) = cpu::own().filter(|_| old.is_in_force(generation, now)) {
            own.displaced.increment();
        }
        noted.dropped.store(0);
    }
    let left = visit.resolution.ends().saturating_sub(visit.now).min(LONGEST >> gcra::FRACTION_BITS);
    let until = now.wrapping_add(wait.min(gcra::units(left)));
    noted.put(Note::new(Refusal { hash, generation, until, precise, reason, length }));
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
    let (is_one, note) = (strangers::are_limited(), first.note());
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
    scatter::one_of(DISPLACING, hash ^ now ^ last.dropped.load()).then_some((last.note(), last))
}

/// Moves what was counted beside the notes of this source to its own bucket. Where it has none, a count that is full is given up, so that the note
/// goes on. There are two notes of one source where two CPUs have written at once.
#[inline(never)]
pub fn settle(visit: &Visit<'_>, bucket: Option<&Tracked>) {
    let Some(Cell { notes: [first, second], .. }) = front::cell(visit.note_hash) else { return };
    settle_one(first, visit.note_hash, bucket);
    if !strangers::are_limited() {
        settle_one(second, visit.note_hash, bucket);
    }
}

#[inline(always)]
fn settle_one(noted: &Noted, hash: u64, bucket: Option<&Tracked>) {
    let is_due = bucket.is_some() || Dropped(noted.dropped.load()).is_full();
    if !is_due || !noted.note().is_about(hash) {
        return;
    }
    let dropped = Dropped(noted.dropped.take());
    if let Some(bucket) = bucket {
        bucket.count_dropped(dropped.packets(), dropped.bytes());
    }
}
