//! The common limit of unknown sources: all sources that are not known. A forged flood consists of them, each within
//! its own limit.
//!
//! A word of a known source holds 32 bits of the hash, 8 bits of seconds seen, and 24 bits of the last second.

use ratelimit_common::{
    cells::known_source::{self, KnownSource},
    maps::control::Control,
    meters::gcra,
};

use crate::{
    maps::{
        budgets,
        cells::{self, Cell},
        exchange::{FEW_TRIES, exchange},
        this_cpu,
    },
    meters::budget,
};

/// Returns whether a packet passes: its source is known, or the limit of unknown sources has room. The cell remembers
/// the source.
#[inline(never)]
#[must_use]
pub fn admit(control: &Control, cell: &Cell, hash: u64, now: u64) -> bool {
    is_known(cell, hash, now) || take(control, now)
}

/// Returns whether the source with this hash is known by now. Each cell has two places. A source is remembered in its
/// own cell, or in the next one if two other known sources have both places.
#[inline(always)]
fn is_known(cell: &Cell, hash: u64, now: u64) -> bool {
    let second = known_source::second(now);
    let mut found = remember(cell, hash, second);
    if found == NO_PLACE {
        found = cells::get(hash ^ 1).map_or(KNOWN, |next| remember(next, hash, second));
    }
    found == KNOWN
}

// Results of `remember`.
const UNKNOWN_SOURCE: u32 = 0;
const KNOWN: u32 = 1;
const NO_PLACE: u32 = 2;

/// Looks for the source with this hash in a cell, and writes that it was seen. Not inlined, so that the verifier
/// continues behind it in one state.
#[inline(never)]
fn remember(cell: &Cell, hash: u64, second: u64) -> u32 {
    let [first, last] = cell.known();
    let seen = [KnownSource(first.load()), KnownSource(last.load())];
    let (place, before) = if seen[0].is(hash) {
        (first, seen[0])
    } else if seen[1].is(hash) {
        (last, seen[1])
    } else {
        // If another CPU takes the place first, the source's next packet tries again.
        if seen[0].gives_way(second) {
            first.store(KnownSource::new(hash, second).0);
        } else if seen[1].gives_way(second) {
            last.store(KnownSource::new(hash, second).0);
        } else if seen[0].is_known() && seen[1].is_known() {
            return NO_PLACE;
        }
        return UNKNOWN_SOURCE;
    };
    let after = before.seen(second);
    if after != before {
        let _ = place.compare_exchange(before.0, after.0);
    }
    if after.is_known() { KNOWN } else { UNKNOWN_SOURCE }
}

/// Takes one packet from the common limit. Each CPU takes a batch at a time, so that CPUs do not wait for each other.
#[inline(always)]
fn take(control: &Control, now: u64) -> bool {
    let (Some(cpu), Some(shared)) = (this_cpu::get(), budgets::unknown()) else { return true };
    let (now, limit) = (gcra::units(now), &control.unknown);
    let mut left = cpu.unknown_left.load();
    if left == 0 {
        let wait = cpu.unknown_until.load().wrapping_sub(now);
        if wait != 0 && wait <= limit.cost {
            return false;
        }
        let mut found = now;
        let is_taken = exchange::<FEW_TRIES>(shared, |state| {
            found = state;
            budget::next(state, now, limit.cost, limit.burst)
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
