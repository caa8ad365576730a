//! The common limit of unknown sources: all sources that are not known. A forged flood consists of them, each within
//! its own limit.
//!
//! Only packets that pass count. So a place costs its source packets of the common limit, and a flood of refused
//! packets neither takes a place nor makes a source known.

use ratelimit_common::{
    cells::known_source::{self, KnownSource},
    maps::control::Control,
};

use crate::{
    bpf::{settings, verifier::given},
    cells::unknown_rate,
    maps::cells::{self, Cell},
};

/// Whether the common limit lets a packet through.
#[derive(PartialEq)]
#[repr(u32)]
pub enum Admission {
    /// Its source is known.
    Known,
    /// Its source is unknown, and the limit has room. [`note_outcome`] must follow.
    WithinRate,
    /// The limit has no room.
    OverRate,
}

/// Returns whether the common limit lets a packet through.
#[inline(never)]
#[must_use]
pub fn admit(control: &Control, cell: &Cell, hash: u64, now: u64) -> Admission {
    let second = known_source::second(now);
    if look(cell, hash, second) == KNOWN || cells::get(hash ^ 1).is_none_or(|next| look(next, hash, second) == KNOWN) {
        return Admission::Known;
    }
    if unknown_rate::take(control, hash, now) { Admission::WithinRate } else { Admission::OverRate }
}

/// Remembers the source of a packet that passes after all. A packet that its own limit or a parent refuses gives back
/// what it took. A source is remembered in its own cell, or in the next one if two other known sources have both places.
#[inline(never)]
pub fn note_outcome(hash: u64, now: u64, passes: bool) {
    if !passes {
        unknown_rate::give_back();
        return;
    }
    let second = known_source::second(now);
    let (Some(cell), Some(next)) = (cells::get(hash), cells::get(hash ^ 1)) else { return };
    let is_elsewhere = look(next, hash, second) == CANDIDATE && look(cell, hash, second) != CANDIDATE;
    if is_elsewhere || remember(cell, hash, second) == NO_PLACE {
        remember(next, hash, second);
    }
}

// Results of `look`.
const ABSENT: u32 = 0;
const CANDIDATE: u32 = 1;
const KNOWN: u32 = 2;

/// Looks for the source with this hash in a cell. For a known source, writes that it was seen.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn look(cell: *const Cell, hash: u64, second: u64) -> u32 {
    if !settings::limits_unknown() {
        return ABSENT;
    }
    let Some(cell) = given(cell) else { return ABSENT };
    let [first, last] = cell.known();
    let seen = [KnownSource(first.load()), KnownSource(last.load())];
    let (place, before) = if seen[0].is(hash) {
        (first, seen[0])
    } else if seen[1].is(hash) {
        (last, seen[1])
    } else {
        return ABSENT;
    };
    if !before.is_known() || before.gives_way(second) {
        return CANDIDATE;
    }
    let after = before.seen(second);
    if after != before {
        // If another CPU is first, it writes the same, or the source's next packet does.
        let _ = place.compare_exchange(before.0, after.0);
    }
    KNOWN
}

// Results of `remember`.
const DONE: u32 = 0;
const NO_PLACE: u32 = 1;

/// Writes that a packet of an unknown source has passed, if the cell has a place for it. If another CPU takes the place
/// first, the source's next packet tries again.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn remember(cell: *const Cell, hash: u64, second: u64) -> u32 {
    if !settings::limits_unknown() {
        return DONE;
    }
    let Some(cell) = given(cell) else { return DONE };
    let [first, last] = cell.known();
    let seen = [KnownSource(first.load()), KnownSource(last.load())];
    let (place, before) = if seen[0].is(hash) || !seen[1].is(hash) && seen[0].gives_way(second) {
        (first, seen[0])
    } else if seen[1].is(hash) || seen[1].gives_way(second) {
        (last, seen[1])
    } else {
        return if seen[0].is_known() && seen[1].is_known() { NO_PLACE } else { DONE };
    };
    let after = if before.is(hash) { before.seen(second) } else { KnownSource::new(hash, second) };
    let _ = place.compare_exchange(before.0, after.0);
    DONE
}
