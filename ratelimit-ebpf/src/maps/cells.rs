//! The cells in front of the buckets.

use aya_ebpf::{btf_maps::Array, macros::btf_map};
use ratelimit_common::{
    cells::{bucket_filter::LEASED, cached_refusal::CachedRefusal, cell},
    limits::policy::Policy,
    maps::names,
    meters::{gcra::Units, stages},
};

use crate::{
    bpf::{atomic::Word, clock::Clock, map_flags::ALIGNED, settings},
    maps::{
        control,
        exchange::{FEW_TRIES, exchange},
        levels::{self, Levels},
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
        lane if settings::has_lanes() && lane != 0 => levels::in_lane(lane, hash),
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
