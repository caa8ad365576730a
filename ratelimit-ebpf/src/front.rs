//! The cells in front of the buckets. A cell can let pass, or repeat what a source's own bucket has said.

use ratelimit_common::{
    cell,
    control::Control,
    gcra,
    note::{Note, Refusal},
    reason::Reason,
};

use crate::{atomic::Word, bucket::Tracked, clock::Clock, cpu, maps::FRONT, rules, scatter, settings};

/// One of so many refusals makes another source's note give way.
const DISPLACING: u64 = 16;

/// A [`cell::Cell`] as the CPUs share it.
#[repr(C)]
pub struct Cell {
    /// Level of packets.
    pub packets: Word,
    /// Level of bytes.
    pub bytes: Word,
    until: Word,
    check: Word,
    dropped_packets: Word,
    dropped_bytes: Word,
    /// See [`ratelimit_common::regular`].
    pub regulars: [Word; 2],
}
const _: () = assert!(size_of::<Cell>() == size_of::<cell::Cell>());

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

impl Cell {
    #[inline(always)]
    fn note(&self) -> Note {
        Note { until: self.until.load(), check: self.check.load() }
    }

    /// Why a packet is refused, if the cell's note says so. It is counted.
    #[inline(always)]
    pub fn refusal(&self, hash: u64, control: &Control, clock: &Clock<'_>, length: u32) -> Option<Reason> {
        let note = self.note();
        if !note.is_about(hash) || !note.refuses(rules::generation(control), clock.units(), length) {
            return None;
        }
        if note.is_precise() && !note.is_ahead(clock.read_again()) {
            return None;
        }
        self.dropped_packets.add(1);
        self.dropped_bytes.add(u64::from(length));
        Some(note.reason())
    }

    /// Whether a refusal of this source is noted. Of two sources that are refused, the one that was noted first keeps the note for the most
    /// part: taking turns, none would be spared its bucket.
    #[inline(always)]
    pub fn takes_note_of(&self, hash: u64, generation: u32, now: u64) -> bool {
        let old = self.note();
        old.is_about(hash)
            || !old.is_in_force(generation, gcra::units(now))
            || scatter::one_of(DISPLACING, hash ^ now ^ self.dropped_packets.load())
    }

    /// Notes a refusal. What was counted for a source that gives way is forgotten.
    #[inline(always)]
    pub fn write(&self, refusal: Refusal, now: u64) {
        let (old, note) = (self.note(), Note::new(refusal));
        if !old.is_about(refusal.hash) {
            if let Some(own) = cpu::own().filter(|_| old.is_in_force(refusal.generation, gcra::units(now))) {
                own.displaced.increment();
            }
            self.dropped_packets.store(0);
            self.dropped_bytes.store(0);
        }
        self.until.store(note.until);
        self.check.store(note.check);
    }

    /// Moves what was counted beside the note of this source to its own bucket.
    #[inline(always)]
    pub fn settle(&self, hash: u64, bucket: &Tracked) {
        if self.note().is_about(hash) {
            bucket.count_dropped(self.dropped_packets.take(), self.dropped_bytes.take());
        }
    }
}
