//! The cells in front of the buckets. A cell can let pass, or repeat what a source's own bucket has said.

use ratelimit_common::{
    cell,
    control::Control,
    dropped::Dropped,
    gcra,
    note::{Note, Refusal},
    reason::Reason,
};

use crate::{atomic::Word, bucket::Tracked, clock::Clock, cpu, maps::FRONT, rules, scatter, settings, strangers};

/// One of so many refusals makes other sources' notes give way.
const DISPLACING: u64 = 16;

/// A [`cell::Cell`] as the CPUs share it.
#[repr(C)]
pub struct Cell {
    /// Level of packets.
    pub packets: Word,
    /// Level of bytes.
    pub bytes: Word,
    notes: [Noted; 2],
}
const _: () = assert!(size_of::<Cell>() == size_of::<cell::Cell>());

/// A [`cell::Noted`].
#[repr(C)]
struct Noted {
    until: Word,
    check: Word,
    dropped: Word,
}

/// Whether there are cells at all.
#[inline(always)]
#[must_use]
pub fn is_on() -> bool {
    settings::FRONT_CELLS.load() != 0
}

/// The cell of the source with this hash.
#[inline(always)]
#[must_use]
pub fn cell(hash: u64) -> Option<&'static Cell> {
    FRONT.get(cell::index(hash, settings::FRONT_CELLS.load()))
}

impl Noted {
    #[inline(always)]
    fn note(&self) -> Note {
        Note { until: self.until.load(), check: self.check.load() }
    }
}

impl Cell {
    /// See [`cell::Cell::regulars`].
    #[inline(always)]
    pub fn regulars(&self) -> [&Word; 2] {
        [&self.notes[1].until, &self.notes[1].check]
    }

    /// The note about this source, in force or not, and where it is.
    #[inline(always)]
    fn about(&self, hash: u64) -> Option<(Note, &Noted)> {
        let [first, second] = &self.notes;
        let note = first.note();
        if note.is_about(hash) {
            return Some((note, first));
        }
        if strangers::are_limited() {
            return None;
        }
        let note = second.note();
        note.is_about(hash).then_some((note, second))
    }

    /// Why a packet is refused, if a note says so. It is counted.
    #[inline(always)]
    pub fn refusal(&self, hash: u64, control: &Control, clock: &Clock<'_>, length: u32) -> Option<Reason> {
        let (note, noted) = self.about(hash)?;
        if !note.refuses(rules::generation(control), clock.units(), length) || Dropped(noted.dropped.load()).is_full() {
            return None;
        }
        if note.is_precise() && !note.is_ahead(clock.read_again()) {
            return None;
        }
        noted.dropped.add(Dropped::one(length));
        Some(note.reason())
    }

    /// Where a refusal of this source is noted, if it is. Of three sources that are refused, those that were noted first keep the notes for
    /// the most part: taking turns, none would be spared its bucket.
    #[inline(always)]
    fn place(&self, hash: u64, generation: u32, now: u64) -> Option<&Noted> {
        if let Some((_, noted)) = self.about(hash) {
            return Some(noted);
        }
        let [first, second] = &self.notes;
        let (is_one, units) = (strangers::are_limited(), gcra::units(now));
        if !first.note().is_in_force(generation, units) {
            return Some(first);
        }
        if !is_one && !second.note().is_in_force(generation, units) {
            return Some(second);
        }
        let last = if is_one || hash >> 63 == 0 { first } else { second };
        scatter::one_of(DISPLACING, hash ^ now ^ last.dropped.load()).then_some(last)
    }

    /// Whether a refusal of this source is noted.
    #[inline(always)]
    pub fn takes_note_of(&self, hash: u64, generation: u32, now: u64) -> bool {
        self.place(hash, generation, now).is_some()
    }

    /// Notes a refusal, if there is a place. What was counted for a source that gives way is forgotten.
    #[inline(always)]
    pub fn write(&self, refusal: Refusal, now: u64) {
        let Some(noted) = self.place(refusal.hash, refusal.generation, now) else { return };
        let (old, note) = (noted.note(), Note::new(refusal));
        if !old.is_about(refusal.hash) {
            if let Some(own) = cpu::own().filter(|_| old.is_in_force(refusal.generation, gcra::units(now))) {
                own.displaced.increment();
            }
            noted.dropped.store(0);
        }
        noted.until.store(note.until);
        noted.check.store(note.check);
    }

    /// Moves what was counted beside the note of this source to its own bucket.
    #[inline(always)]
    pub fn settle(&self, hash: u64, bucket: &Tracked) {
        if let Some((_, noted)) = self.about(hash) {
            let dropped = Dropped(noted.dropped.take());
            bucket.count_dropped(dropped.packets(), dropped.bytes());
        }
    }
}
