//! The sources' sliding logs.
//!
//! The map has one entry while no limit keeps logs. The command that sets the first such limit creates a larger map and
//! installs it together with the program.

use aya_ebpf::{
    bindings::BPF_NOEXIST,
    btf_maps::{Array, LruHashMap},
    macros::btf_map,
};
use ratelimit_common::{
    buckets::sliding_log,
    identity::source::Source,
    meters::sliding_log::{PLACES, place},
};

use crate::{
    bpf::{
        atomic::Word,
        settings,
        verifier::{given, key},
    },
    maps::{buckets::Bucket, resize, this_cpu},
};

/// See [`ratelimit_common::maps::names::SLIDING_LOGS`].
#[btf_map]
pub static SLIDING_LOGS: LruHashMap<Source, SlidingLog, 1> = LruHashMap::new();

/// See [`ratelimit_common::maps::names::EMPTY_SLIDING_LOG`].
#[btf_map]
pub static EMPTY_SLIDING_LOG: Array<SlidingLog, 1> = Array::new();

/// See [`ratelimit_common::maps::names::OLD_SLIDING_LOGS`].
#[btf_map]
pub static OLD_SLIDING_LOGS: LruHashMap<Source, SlidingLog, 1> = LruHashMap::new();

/// A source's [`sliding_log::Log`], which the CPUs share.
#[repr(C)]
pub struct SlidingLog {
    /// Counters of the source.
    pub bucket: Bucket,
    /// Number of admitted packets.
    pub admitted: Word,
    places: [Word; PLACES as usize],
}
const _: () = assert!(size_of::<SlidingLog>() == size_of::<sliding_log::Log>());

impl SlidingLog {
    /// Returns the place of the packet of this number.
    #[inline(always)]
    #[must_use]
    pub fn at(&self, number: u64) -> &Word {
        &self.places[(place(number) % PLACES as u32) as usize]
    }
}

/// Returns the sliding log of a source.
#[inline(always)]
#[must_use]
pub fn find(source: &Source) -> Option<&'static SlidingLog> {
    // SAFETY: nothing here removes the entry, and an entry that the kernel recycles holds another source's words, all
    // valid.
    let found = unsafe { SLIDING_LOGS.get(source) };
    if resize::is_on() && found.is_none() {
        fetch_old_log(source);
        // SAFETY: as above.
        return unsafe { SLIDING_LOGS.get(source) };
    }
    found
}

/// Inserts an empty sliding log, unless another CPU was first. The log is larger than the stack, so it is copied from a
/// map.
#[inline(never)]
pub fn insert_empty(source: &Source) {
    let Some(empty) = EMPTY_SLIDING_LOG.get(0) else { return };
    let outcome = SLIDING_LOGS.insert(source, empty, u64::from(BPF_NOEXIST));
    this_cpu::count(|cpu| if outcome.is_ok() { &cpu.admitted } else { &cpu.failed });
}

/// Moves the sliding log of a source from the map of the previous size.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn fetch_old_log(source: *const Source) -> u32 {
    if !resize::is_on() || !settings::has_sliding_logs() {
        return 0;
    }
    let Some(source) = given(source) else { return 0 };
    u32::from(resize::move_entry(&OLD_SLIDING_LOGS, &SLIDING_LOGS, &key(source)))
}
