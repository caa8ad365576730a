//! Remembers sources that have proven their address. They go before sources that are known by habit.

use ratelimit_common::cells::known_source::{self, KnownSource};

use crate::{
    bpf::{settings, verifier::given},
    maps::cells::{self, Cell},
};

/// Remembers a source that has proven its address: where it is, in a free place, or in place of a candidate or of a source
/// that is known by habit. If other proven sources have all four places, the source's next packet must prove it again.
#[inline(never)]
pub fn remember(hash: u64, now: u64) {
    let second = known_source::second(now);
    let (Some(cell), Some(next)) = (cells::get(hash), cells::get(hash ^ 1)) else { return };
    let (own, other) = (best_place(cell, hash, second), best_place(next, hash, second));
    let (cell, place) = if own >> 1 <= other >> 1 { (cell, own) } else { (next, other) };
    if place >> 1 == TAKEN {
        return;
    }
    let [first, last] = cell.known();
    let word = if place & 1 == 0 { first } else { last };
    // If another CPU is first, the source's next packet tries again.
    let _ = word.compare_exchange(word.load(), KnownSource::proven(hash, second).0);
}

// What a place holds: the less, the better it is for a proven source.
const SAME: u32 = 0;
const FREE: u32 = 1;
const CANDIDATE: u32 = 2;
const HABIT: u32 = 3;
const TAKEN: u32 = 4;

/// Returns what the better of a cell's two places holds, and in the lowest bit which one it is.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn best_place(cell: *const Cell, hash: u64, second: u64) -> u32 {
    let (Some(cell), true) = (given(cell), settings::limits_unknown()) else { return TAKEN << 1 };
    let [first, last] = cell.known().map(|word| content(KnownSource(word.load()), hash, second) << 1);
    first.min(last | 1)
}

#[inline(always)]
const fn content(known: KnownSource, hash: u64, second: u64) -> u32 {
    if known.is(hash) {
        SAME
    } else if known.gives_way(second) {
        FREE
    } else if !known.is_known() {
        CANDIDATE
    } else if !known.is_proven() {
        HABIT
    } else {
        TAKEN
    }
}
