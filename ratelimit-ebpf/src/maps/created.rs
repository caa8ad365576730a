//! The number of buckets that were created, by which the filters of buckets forget.

use aya_ebpf::{btf_maps::Array, macros::btf_map};
use ratelimit_common::cells::bucket_filter::{FIRST_EPOCH, STEP};

use crate::{
    bpf::{atomic::Word, settings},
    maps::this_cpu::ThisCpu,
};

/// See [`ratelimit_common::maps::names::CREATED`].
#[btf_map]
pub static CREATED: Array<Word, 1> = Array::new();

/// Returns the running epoch. None if the filters do not know every bucket yet.
#[inline(always)]
#[must_use]
pub fn epoch() -> Option<u64> {
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
pub fn count(cpu: &ThisCpu) {
    cpu.admitted.increment();
    if cpu.admitted.load() % STEP == 0
        && let Some(created) = CREATED.get(0)
    {
        created.add(STEP);
    }
}
