//! Moves entries while a map of another size replaces the running one.
//!
//! The program fetches an entry from the old map when it first needs it, so no source gets tokens back. The user side
//! moves the rest. It then replaces the program by one without this stage.

use aya_ebpf::{bindings::BPF_NOEXIST, btf_maps::LruHashMap};
use ratelimit_common::identity::source::Source;

use crate::bpf::settings;

/// Returns whether a resize is running.
#[inline(always)]
#[must_use]
pub fn is_on() -> bool {
    settings::is_on(&settings::RESIZE_ON)
}

/// Moves a source's entry between two maps, if the old one has it. Returns whether it is moved.
#[inline(always)]
pub fn move_entry<V, const OLD: usize, const NEW: usize>(
    old: &'static LruHashMap<Source, V, OLD>,
    new: &'static LruHashMap<Source, V, NEW>,
    source: &Source,
) -> bool {
    // SAFETY: an entry that the kernel recycles holds another source's words, all valid.
    let Some(entry) = (unsafe { old.get(source) }) else { return false };
    // If another CPU was first, the entry is in the new map too. Otherwise the map is full, and the entry stays in the
    // old one.
    let is_there = new.insert(source, entry, u64::from(BPF_NOEXIST)).is_ok() || new.get_ptr(source).is_some();
    // A moved entry that is evicted later must not come back with its old debt.
    is_there && old.remove(source).is_ok()
}
