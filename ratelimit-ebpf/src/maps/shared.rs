//! Words that all CPUs share: states of budgets, and the number of created buckets.

use aya_ebpf::{btf_maps::Array, macros::btf_map};
use ratelimit_common::{
    cells::bucket_filter::{FIRST_EPOCH, STEP},
    maps::interface_counters::PLACES,
};

use crate::{
    bpf::{atomic::Word, settings},
    maps::{resize, this_cpu::ThisCpu},
};

/// See [`ratelimit_common::maps::names::LINK_DISCOVERY`].
#[btf_map]
pub static LINK_DISCOVERY: Array<Word, { PLACES + 1 }> = Array::new();

/// See [`ratelimit_common::maps::names::UNKNOWN`].
#[btf_map]
pub static UNKNOWN: Array<Word, 1> = Array::new();

/// See [`ratelimit_common::maps::names::REPLIES`].
#[btf_map]
pub static REPLIES: Array<Word, 2> = Array::new();

/// See [`ratelimit_common::maps::names::CREATED`].
#[btf_map]
pub static CREATED: Array<Word, 1> = Array::new();

/// Returns the state of the cap on ARP and neighbour discovery for the interface with this place.
#[inline(always)]
#[must_use]
pub fn link_discovery(place: u32) -> Option<&'static Word> {
    LINK_DISCOVERY.get(place)
}

/// Returns the state of the limit of all unknown sources.
#[inline(always)]
#[must_use]
pub fn unknown() -> Option<&'static Word> {
    UNKNOWN.get(0)
}

/// Returns the state of the budget for replies.
#[inline(always)]
#[must_use]
pub fn replies() -> Option<&'static Word> {
    REPLIES.get(0)
}

/// Returns the state of the budget for SYN cookies.
#[inline(always)]
#[must_use]
pub fn cookies() -> Option<&'static Word> {
    REPLIES.get(1)
}

/// Returns the running epoch. None if the filters do not know every bucket yet, or buckets are in two maps.
#[inline(always)]
#[must_use]
pub fn epoch() -> Option<u64> {
    if resize::is_on() {
        return None;
    }
    running_epoch().filter(|epoch| *epoch >= FIRST_EPOCH)
}

/// Returns the running epoch. Unit tests have no maps.
#[inline(always)]
#[must_use]
pub fn running_epoch() -> Option<u64> {
    if cfg!(test) {
        return None;
    }
    Some(CREATED.get(0)?.load() >> (settings::EPOCH_SHIFT.load() & 31))
}

/// Counts a bucket that this CPU has created. All CPUs count in one word, so each does it in steps.
#[inline(always)]
pub fn count_created(cpu: &ThisCpu) {
    cpu.admitted.increment();
    cpu.uncounted.increment();
    if cpu.uncounted.load() >= STEP
        && let Some(created) = CREATED.get(0)
    {
        created.add(STEP);
        cpu.uncounted.store(0);
    }
}
