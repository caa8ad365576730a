//! The cells in front of the buckets. A cell can let pass, or repeat what a source's own bucket has said.

use ratelimit_common::{
    cell,
    control::Control,
    gcra,
    note::{Note, Refusal},
    policy::{Meter, Policy},
    reason::Reason,
    stages,
};

use crate::{
    atomic::Word,
    bucket::Tracked,
    charge::{self, Charge},
    clock::Clock,
    cpu,
    maps::FRONT,
    rules, scatter, settings,
};

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

    /// Notes a refusal. Of two sources that are refused, the one that was noted first keeps the note for the most part: taking turns,
    /// none would be spared its bucket. What was counted for a source that gives way is forgotten.
    #[inline(always)]
    pub fn write(&self, refusal: Refusal, now: u64) {
        let (old, note) = (self.note(), Note::new(refusal));
        if !old.is_about(refusal.hash) {
            if old.is_in_force(refusal.generation, gcra::units(now)) {
                if !scatter::one_of(DISPLACING, refusal.hash ^ note.until ^ now) {
                    return;
                }
                if let Some(own) = cpu::own() {
                    own.displaced.increment();
                }
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

    /// Lets a packet pass that fits the cell's part of the burst.
    #[inline(always)]
    pub fn ask(&self, policy: &Policy, clock: &Clock<'_>, length: u32) -> Charge {
        if policy.bytes.is_on() {
            ask_bytes(self, policy, clock, length)
        } else {
            charge_level(&self.packets, &policy.packets, clock, policy.packets.cost_of(1))
        }
    }
}

/// The same where bytes are limited, and packets perhaps. Both are asked before either is charged.
#[inline(never)]
fn ask_bytes(cell: &Cell, Policy { packets, bytes, .. }: &Policy, clock: &Clock<'_>, length: u32) -> Charge {
    let (one, cost) = (packets.cost_of(1), bytes.cost_of(length));
    if packets.is_on() {
        if stages::ask_cell(debt(&cell.bytes, clock), clock.units(), cost, bytes).is_none() {
            return Charge::Refused;
        }
        let outcome = charge_level(&cell.packets, packets, clock, one);
        if outcome != Charge::Paid {
            return outcome;
        }
    }
    let outcome = charge_level(&cell.bytes, bytes, clock, cost);
    if outcome != Charge::Paid && packets.is_on() {
        charge::refund(&cell.packets, clock.units(), one);
    }
    outcome
}

/// Charges a level if the cost fits.
#[inline(always)]
fn charge_level(level: &Word, meter: &Meter, clock: &Clock<'_>, cost: gcra::Units) -> Charge {
    let (now, most) = (clock.units(), clock.largest_debt());
    charge::exchange::<{ charge::TRIES }>(level, |seen| {
        stages::ask_cell(stages::level_debt(seen, now, most), now, cost, meter)
    })
}

/// What a level owes.
#[inline(always)]
pub fn debt(level: &Word, clock: &Clock<'_>) -> gcra::Units {
    stages::level_debt(level.load(), clock.units(), clock.largest_debt())
}
