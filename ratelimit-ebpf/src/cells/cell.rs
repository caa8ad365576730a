//! The cells in front of the buckets. A cell can let pass, or repeat what a source's own bucket has said.

use ratelimit_common::{
    cells::{
        cached_refusal::{Note, WITHOUT_ROOM},
        cell,
        dropped::Dropped,
    },
    limits::policy::{DROP, SHADOW},
    maps::control::Control,
};

use crate::{
    bpf::{atomic::Word, settings},
    cells::unknown_sources,
    maps::{all::FRONT, resize},
    meters::interface_capacity,
    packet::{context::Visit, verdict::Verdict},
    rules::{cost, lookup},
};

/// A [`cell::Cell`] as the CPUs share it.
#[repr(C)]
pub struct Cell {
    /// Level of packets.
    pub packets: Word,
    /// Level of bytes, and of second limits.
    pub second: Word,
    /// See [`crate::overlimit::refusals`] for how they are written.
    pub notes: [Noted; 2],
}
const _: () = assert!(size_of::<Cell>() == size_of::<cell::Cell>());

/// A [`cell::Noted`].
#[repr(C)]
pub struct Noted {
    until: Word,
    check: Word,
    /// What was dropped by it and not moved to the source's bucket.
    pub dropped: Word,
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
    if settings::is_on(&settings::OLD_CELLS) {
        resize::fetch_levels(hash);
    }
    FRONT.get(cell::index(hash, settings::FRONT_CELLS.load()))
}

impl Noted {
    /// What it says.
    #[inline(always)]
    pub fn note(&self) -> Note {
        Note { until: self.until.load(), check: self.check.load() }
    }

    /// Writes it.
    #[inline(always)]
    pub fn put(&self, note: Note) {
        self.until.store(note.until);
        self.check.store(note.check);
    }
}

impl Cell {
    /// See [`cell::Cell::known`].
    #[inline(always)]
    pub fn known(&self) -> [&Word; 2] {
        [&self.notes[1].until, &self.notes[1].check]
    }

    /// The note about this source, in force or not, and where it is.
    #[inline(always)]
    pub fn about(&self, hash: u64) -> Option<(Note, &Noted)> {
        let [first, second] = &self.notes;
        let note = first.note();
        if note.is_about(hash) {
            return Some((note, first));
        }
        if unknown_sources::are_limited() {
            return None;
        }
        let note = second.note();
        note.is_about(hash).then_some((note, second))
    }

    /// What becomes of a packet, if a note refuses it. It is counted.
    #[inline(always)]
    pub fn refusal(&self, visit: &Visit, control: &Control) -> Option<Verdict> {
        let (note, noted) = self.about(visit.note_hash)?;
        let clock = visit.clock(control);
        let amount = if cost::are_on() && note.is_of_packets() { visit.cost() } else { visit.length() };
        let is_full = Dropped(noted.dropped.load()).is_full();
        if !note.refuses(lookup::generation(control), clock.units(), amount) || is_full {
            if note.is_old(clock.units()) {
                noted.put(note.ended(clock.units()));
            }
            return None;
        }
        if note.is_precise() && !note.is_ahead(clock.read_again()) {
            return None;
        }
        let action = if settings::is_on(&settings::ACTIONS_ON) { note.action() } else { DROP };
        // What passes in spite of its limit is counted with its bucket.
        if settings::is_on(&settings::ELASTIC_ON) && action == WITHOUT_ROOM && interface_capacity::has_room(visit) {
            return None;
        }
        // What passes in shadow still has to pass where unknown sources are limited.
        if settings::is_on(&settings::ACTIONS_ON) && action == SHADOW && unknown_sources::are_limited() {
            return None;
        }
        noted.dropped.add(Dropped::one(visit.length()));
        Some(Verdict { reason: note.reason(), action })
    }
}
