//! The cells in front of the buckets: levels of limits, cached refusals, and filters of buckets. Limits other than the
//! default have levels in a [lane](ratelimit_common::maps::levels) in place of those of the cell.

use aya_ebpf::{btf_maps::Array, macros::btf_map};
use ratelimit_common::{
    cells::{
        bucket_filter::{Bits, BucketFilter, LEASED},
        cached_refusal::CachedRefusal,
        cell,
    },
    limits::policy::Policy,
    maps::{levels as lanes, names},
    meters::{gcra::Units, stages},
};

use crate::{
    bpf::{atomic::Word, clock::Clock, map_flags::ALIGNED, settings},
    maps::{
        control,
        exchange::{FEW_TRIES, exchange},
        shared,
    },
};

/// See [`names::FRONT`].
#[btf_map]
pub static FRONT: Array<Cell, { names::CELLS_DEFAULT as usize }, ALIGNED> = Array::new();

/// See [`names::OLD_FRONT`].
#[btf_map]
pub static OLD_FRONT: Array<Cell, 1, ALIGNED> = Array::new();

/// A [`cell::Cell`], which the CPUs share.
#[repr(C)]
pub struct Cell {
    /// Levels of the default limit.
    pub levels: Levels,
    /// Cached refusals.
    pub refusals: [RefusalSlot; 2],
    /// Filters of buckets.
    pub filters: [Word; 2],
}
const _: () = assert!(size_of::<Cell>() == size_of::<cell::Cell>());

/// A [`cell::RefusalSlot`], which the CPUs share.
#[repr(C)]
pub struct RefusalSlot {
    until: Word,
    check: Word,
}

impl RefusalSlot {
    /// Returns the cached refusal.
    #[inline(always)]
    #[must_use]
    pub fn refusal(&self) -> CachedRefusal {
        CachedRefusal { until: self.until.load(), check: self.check.load() }
    }

    /// Writes a cached refusal.
    #[inline(always)]
    pub fn put(&self, refusal: CachedRefusal) {
        self.until.store(refusal.until);
        self.check.store(refusal.check);
    }
}

impl Cell {
    /// Returns whether one of its sources may have a lease.
    #[inline(always)]
    #[must_use]
    pub fn is_leased(&self) -> bool {
        let [even, odd] = &self.filters;
        (even.load() | odd.load()) & LEASED != 0
    }

    /// Returns the words of two known sources. See [`cell::Cell::known`].
    #[inline(always)]
    #[must_use]
    pub fn known(&self) -> [&Word; 2] {
        [&self.refusals[1].until, &self.refusals[1].check]
    }

    /// Returns the cached refusal of the source with this hash, in force or not, and its slot.
    #[inline(always)]
    #[must_use]
    pub fn refusal_of(&self, hash: u64) -> Option<(CachedRefusal, &RefusalSlot)> {
        let [first, second] = &self.refusals;
        let refusal = first.refusal();
        if refusal.is_about(hash) {
            return Some((refusal, first));
        }
        if settings::limits_unknown() {
            return None;
        }
        let refusal = second.refusal();
        refusal.is_about(hash).then_some((refusal, second))
    }
}

/// Returns the cell of the source with this hash. A packet looks its cell up once, and functions hand it on.
#[inline(always)]
#[must_use]
pub fn get(hash: u64) -> Option<&'static Cell> {
    if settings::is_on(&settings::OLD_CELLS) {
        fetch_old_levels(hash);
    }
    of(hash)
}

/// Returns the same cell after [`get`].
#[inline(always)]
#[must_use]
pub fn of(hash: u64) -> Option<&'static Cell> {
    FRONT.get(cell::index(hash, settings::FRONT_CELLS.load()))
}

/// Returns the levels that packets of a policy charge, for the source with this hash.
#[inline(always)]
#[must_use]
pub fn levels(policy: &Policy, hash: u64) -> Option<&'static Levels> {
    match policy.lane() {
        lane if settings::has_lanes() && lane != 0 => in_lane(lane, hash),
        _ => get(hash).map(|cell| &cell.levels),
    }
}

/// Raises the levels of the cell with this hash to those of its cell in the map of the previous size.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn fetch_old_levels(hash: u64) -> u32 {
    let (cells, before) = (settings::FRONT_CELLS.load(), settings::OLD_CELLS.load());
    if cells == 0 || before == 0 {
        return 0;
    }
    let Some(old) = OLD_FRONT.get(cell::index(hash, before)) else { return 0 };
    let (Some(cell), Some(control)) = (FRONT.get(cell::index(hash, cells)), control::get()) else { return 0 };
    let clock = Clock::coarse(control);
    let (now, most) = (clock.units(), clock.largest_debt());
    raise(&cell.levels.packets, &old.levels.packets, now, most);
    raise(&cell.levels.second, &old.levels.second, now, most);
    0
}

/// Raises a level to an older one. If all tries fail, another CPU has raised it.
#[inline(always)]
fn raise(level: &Word, old: &Word, now: Units, most: Units) {
    let old = old.load();
    let _ = exchange::<FEW_TRIES>(level, |seen| stages::is_higher(old, seen, now, most).then_some(old));
}

/// See [`ratelimit_common::maps::names::LEVELS`].
#[btf_map]
pub static LEVELS: Array<Levels, { lanes::LEVELS_MAX as usize }, ALIGNED> = Array::new();

/// [`lanes::Levels`], which the CPUs share.
#[repr(C)]
pub struct Levels {
    /// Level of packets.
    pub packets: Word,
    /// Level of bytes, and of second limits of packets.
    pub second: Word,
}
const _: () = assert!(size_of::<Levels>() == size_of::<lanes::Levels>());

/// Returns the levels of the source with this hash in a lane from 1 on.
#[inline(always)]
#[must_use]
pub fn in_lane(lane: u32, hash: u64) -> Option<&'static Levels> {
    LEVELS.get(lanes::index(lane, hash))
}

/// Returns the debt of a level.
#[inline(always)]
pub fn debt(level: &Word, clock: &Clock<'_>) -> Units {
    stages::level_debt(level.load(), clock.units(), clock.largest_debt())
}

/// Returns whether the source with this hash may have a bucket that it has used lately.
#[inline(always)]
#[must_use]
pub fn may_have_bucket(hash: u64) -> bool {
    let Some(epoch) = shared::epoch() else { return true };
    let Some(cell) = of(hash) else { return true };
    let bits = Bits::of(hash);
    let has = |epoch| filter(of_epoch(cell, epoch)).may_have(bits, epoch);
    has(epoch) || has(epoch - 1)
}

/// Notes that the source with this hash uses its bucket. If another CPU writes at each try, its next packet notes it.
#[inline(always)]
pub fn note_used_bucket(hash: u64) {
    let Some(epoch) = shared::running_epoch() else { return };
    let Some(cell) = of(hash) else { return };
    if !filter(of_epoch(cell, epoch)).may_have(Bits::of(hash), epoch) {
        note_bucket(hash);
    }
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn note_bucket(hash: u64) -> u32 {
    let (Some(epoch), Some(cell)) = (shared::running_epoch(), of(hash)) else { return 0 };
    let bits = Bits::of(hash);
    let _ = exchange::<FEW_TRIES>(of_epoch(cell, epoch), |seen| {
        let filter = BucketFilter(seen);
        (!filter.may_have(bits, epoch)).then_some(filter.with(bits, epoch).0)
    });
    0
}

/// Returns the word of an epoch.
#[inline(always)]
fn of_epoch(cell: &Cell, epoch: u64) -> &Word {
    let [even, odd] = &cell.filters;
    if epoch & 1 == 0 { even } else { odd }
}

#[inline(always)]
fn filter(word: &Word) -> BucketFilter {
    BucketFilter(word.load())
}
