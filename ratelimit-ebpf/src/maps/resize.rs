//! While maps of other sizes take the place of the running ones: what is asked for first is fetched from those before, so that nobody gets
//! tokens back. The user side moves the rest, and puts a program without this in place.

use aya_ebpf::bindings::BPF_NOEXIST;
use ratelimit_common::{cells::cell, identity::source::Source, meters::stages};

use crate::{
    bpf::{
        atomic::Word,
        clock::Clock,
        settings,
        verifier::{given, key},
    },
    maps::all::{BUCKETS, CONTROL, FRONT, OLD_BUCKETS, OLD_FRONT, OLD_SLIDING_LOGS, SLIDING_LOGS},
    meters::charge::FEW_TRIES,
};

/// Whether anything is moved.
#[inline(always)]
#[must_use]
pub fn is_on() -> bool {
    settings::is_on(&settings::MOVING_ON)
}

/// Moves the bucket of a source, if there is one. Whoever is first moves it, and it is there for all.
#[inline(always)]
pub fn fetch_bucket(source: &Source) {
    fetch_old_bucket(source);
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn fetch_old_bucket(source: *const Source) -> u32 {
    if !is_on() {
        return 0;
    }
    let Some(source) = given(source) else { return 0 };
    let source = key(source);
    // SAFETY: an entry that the kernel recycles holds another source's words, all valid.
    let Some(old) = (unsafe { OLD_BUCKETS.get(source) }) else { return 0 };
    // Where another CPU was first, it is there too. Otherwise the map has no room: then it stays where it is.
    let is_there = BUCKETS.insert(source, old, u64::from(BPF_NOEXIST)).is_ok() || BUCKETS.get_ptr(source).is_some();
    // Should it be evicted, what its cell shows counts, and not what was owed once.
    u32::from(is_there && OLD_BUCKETS.remove(source).is_ok())
}

/// The same of its log.
#[inline(always)]
pub fn fetch_log(source: &Source) {
    fetch_old_log(source);
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn fetch_old_log(source: *const Source) -> u32 {
    if !is_on() || !settings::is_on(&settings::SLIDING_LOGS_ON) {
        return 0;
    }
    let Some(source) = given(source) else { return 0 };
    let source = key(source);
    // SAFETY: as above.
    let Some(old) = (unsafe { OLD_SLIDING_LOGS.get(source) }) else { return 0 };
    let is_there =
        SLIDING_LOGS.insert(source, old, u64::from(BPF_NOEXIST)).is_ok() || SLIDING_LOGS.get_ptr(source).is_some();
    u32::from(is_there && OLD_SLIDING_LOGS.remove(source).is_ok())
}

/// Raises the levels of the cell with this hash to what the one before it shows.
#[inline(always)]
pub fn fetch_levels(hash: u64) {
    fetch_old_levels(hash);
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn fetch_old_levels(hash: u64) -> u32 {
    let (cells, before) = (settings::FRONT_CELLS.load(), settings::OLD_CELLS.load());
    if cells == 0 || before == 0 {
        return 0;
    }
    let Some(old) = OLD_FRONT.get(cell::index(hash, before)) else { return 0 };
    let (Some(cell), Some(control)) = (FRONT.get(cell::index(hash, cells)), CONTROL.get(0)) else { return 0 };
    let clock = Clock::coarse(control);
    raise(&cell.packets, &old.packets, &clock);
    raise(&cell.second, &old.second, &clock);
    0
}

/// After so many lost races another CPU has raised it.
#[inline(always)]
fn raise(level: &Word, old: &Word, clock: &Clock<'_>) {
    let (mut seen, old) = (level.load(), old.load());
    for _ in 0..FEW_TRIES {
        if !stages::is_higher(old, seen, clock.units(), clock.largest_debt()) {
            return;
        }
        match level.compare_exchange(seen, old) {
            Ok(()) => return,
            Err(actual) => seen = actual,
        }
    }
}
