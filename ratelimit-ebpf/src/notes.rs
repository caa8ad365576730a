//! Writes into cells who is refused, and until when.

use ratelimit_common::{
    dropped::Dropped,
    gcra::{self, Units},
    note::{LONGEST, Note, Refusal, WITHOUT_ROOM},
    policy::{COARSE, Policy},
    reason::Reason,
};

use crate::{
    bucket::Tracked,
    cost, cpu,
    front::{self, Cell, Noted},
    scatter, strangers,
    visit::Visit,
};

/// One of so many refusals makes other sources' notes give way.
const DISPLACING: u64 = 16;

/// Twice what a note's end is rounded by. While the coarse clock stands, a refusal that ends sooner holds as long as that.
const SHORTEST: Units = 1 << 21;

/// Writes into the cell that this source is over its limit for as long as `wait`.
#[inline(always)]
pub fn write_for(visit: &Visit<'_>, policy: &Policy, wait: Units, refusal: Reason) {
    let precise = policy.flags & COARSE == 0;
    let wait = if precise { wait } else { wait.max(SHORTEST) };
    let action = if policy.elastic != 0 { WITHOUT_ROOM } else { policy.over_limit };
    let amount = match refusal {
        Reason::OverBytes => visit.length(),
        _ if cost::are_on() => visit.cost(),
        _ => 0,
    };
    write(visit, wait, Cause { precise, reason: refusal, action, amount });
}

/// Whether a refusal of this source would be noted.
#[inline(never)]
pub fn is_kept(visit: &Visit<'_>) -> bool {
    let cell = front::cell(visit.note_hash);
    cell.is_some_and(|cell| place(cell, visit.note_hash, visit.resolution.generation(), visit.now).is_some())
}

/// What a [`Refusal`] says besides who and when.
pub struct Cause {
    /// See [`Refusal::precise`].
    pub precise: bool,
    /// See [`Refusal::reason`].
    pub reason: Reason,
    /// See [`Refusal::action`].
    pub action: u8,
    /// See [`Refusal::amount`].
    pub amount: u32,
}

/// Notes for as long as `wait`, unless a rule or the [longest](LONGEST) note ends sooner, or other sources keep the notes. What was counted for a
/// source that gives way is forgotten.
#[inline(never)]
pub fn write(visit: &Visit<'_>, wait: Units, Cause { precise, reason, action, amount }: Cause) {
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
    noted.put(Note::new(Refusal { hash, generation, until, precise, reason, action, amount }));
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
    let (is_due, note) = (bucket.is_some() || Dropped(noted.dropped.load()).is_full(), noted.note());
    if !is_due || !note.is_about(hash) {
        return;
    }
    let dropped = Dropped(noted.dropped.take());
    if let Some(bucket) = bucket.filter(|_| dropped.0 != 0) {
        bucket.count_dropped(note.action(), dropped.packets(), dropped.bytes());
    }
}
