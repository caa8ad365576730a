//! The common limit of unknown sources: all sources that are not known. A forged flood consists of them, each within
//! its own limit.
//!
//! Only packets that pass count. So a place costs its source packets of the common limit, and a flood of refused
//! packets neither takes a place nor makes a source known.
//!
//! While less than half of the burst is left, sources take turns: in each second, another part of them may take from
//! it. So a flood that sends in the same order each second does not make its first sources known, and a source that has
//! its turn gets all its packets through, however many others send.

use ratelimit_common::{
    cells::known_source::{self, KnownSource},
    maps::control::{Budget, Control},
    meters::gcra::{self, SLACK},
};

use crate::{
    bpf::{random, settings, verifier::given},
    maps::{
        budgets,
        cells::{self, Cell},
        exchange::{FEW_TRIES, exchange},
        this_cpu,
    },
    meters::budget,
};

/// Returns whether a packet passes: its source is known, or the limit of unknown sources has room. A source is
/// remembered in its own cell, or in the next one if two other known sources have both places.
#[inline(never)]
#[must_use]
pub fn admit(control: &Control, cell: &Cell, hash: u64, now: u64) -> bool {
    let second = known_source::second(now);
    let found = look(cell, hash, second);
    if found == KNOWN {
        return true;
    }
    let Some(next) = cells::get(hash ^ 1) else { return true };
    let elsewhere = look(next, hash, second);
    if elsewhere == KNOWN {
        return true;
    }
    if !take(control, hash, now) {
        return false;
    }
    let is_elsewhere = elsewhere == CANDIDATE && found != CANDIDATE;
    if is_elsewhere || remember(cell, hash, second) == NO_PLACE {
        remember(next, hash, second);
    }
    true
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

/// Takes one packet from the common limit. Each CPU takes a batch at a time, so that CPUs do not wait for each other.
#[inline(always)]
fn take(control: &Control, hash: u64, now: u64) -> bool {
    let (Some(cpu), Some(shared)) = (this_cpu::get(), budgets::unknown()) else { return true };
    let (time, limit) = (gcra::units(now), &control.unknown);
    let wait = cpu.unknown_until.load().wrapping_sub(time);
    let (mut left, mut found) = (cpu.unknown_left.load(), shared.load());
    if left == 0 && wait != 0 && wait <= limit.cost {
        return false;
    }
    if !has_turn(limit, found, now, hash) {
        return false;
    }
    if left == 0 {
        let is_taken = exchange::<FEW_TRIES>(shared, |state| {
            found = state;
            budget::next(state, time, limit.cost, limit.burst)
        });
        if !is_taken {
            // If other CPUs took batches at every try, this only delays the next one.
            cpu.unknown_until.store(found.wrapping_add(limit.cost).wrapping_sub(limit.burst));
            return false;
        }
        left = control.unknown_batch.max(1);
    }
    cpu.unknown_left.store(left - 1);
    cpu.unknown_passed.increment();
    true
}

/// Returns whether a source may take from the limit. While the room is a part of half the burst, the square of this part
/// of the sources may, other ones in each second. So their part becomes as small as any flood needs, and they use up the
/// rate.
#[inline(always)]
fn has_turn(limit: &Budget, state: u64, now: u64, hash: u64) -> bool {
    let (debt, half) = (gcra::debt(state, gcra::units(now)), limit.burst / 2);
    let room = limit.burst.saturating_sub(debt);
    // This limit cannot have made a larger debt, and starts anew.
    if room >= half || debt > limit.burst + SLACK {
        return true;
    }
    // Without the digits that the product has no room for. A burst has less than 41.
    let (room, half) = (room >> 18, half >> 18);
    random::turn(hash, known_source::second(now)).wrapping_mul(half).wrapping_mul(half) >> 16 < room * room
}
