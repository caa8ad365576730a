//! What searches for parts of IPv6 sources found, and what a packet searches for. Each loaded program has its own maps,
//! which no command reads.

use aya_ebpf::{
    btf_maps::{Array, PerCpuArray},
    macros::btf_map,
};
use ratelimit_common::{buckets::bucket::Resolution, identity::source::Source};

use crate::bpf::{atomic::Word, map_flags::ALIGNED};

/// Entries. Two parts that use the same entry search each time.
const ENTRIES: usize = 1 << 14;

/// Keyed hash of a part → [`Part`].
#[btf_map]
pub static NARROW_PARTS: Array<Part, ENTRIES, ALIGNED> = Array::new();

/// The length that a search found for one part.
#[repr(C)]
pub struct Part {
    /// A [`Resolution`] with the length in place of the policy.
    resolution: Word,
    /// The hash of the part exclusive-or the resolution, so halves of two entries match no part.
    check: Word,
}

/// Returns what is kept for the part with this hash: [`Resolution::NONE`] if nothing is.
#[inline(always)]
#[must_use]
pub fn get(hash: u64) -> Resolution {
    let Some(part) = NARROW_PARTS.get(hash as u32 & (ENTRIES - 1) as u32) else { return Resolution::NONE };
    let resolution = part.resolution.load();
    if part.check.load() ^ resolution == hash { Resolution(resolution) } else { Resolution::NONE }
}

/// Keeps what a search found for the part with this hash.
#[inline(always)]
pub fn keep(hash: u64, resolution: Resolution) {
    if let Some(part) = NARROW_PARTS.get(hash as u32 & (ENTRIES - 1) as u32) {
        part.resolution.store(resolution.0);
        part.check.store(resolution.0 ^ hash);
    }
}

/// 0 → [`Search`] of this CPU's packet, which would not fit on the stack.
#[btf_map]
pub static NARROW_SEARCH: PerCpuArray<Search, 1> = PerCpuArray::new();

/// A packet's search.
#[repr(C)]
pub struct Search {
    address: Source,
    generation: u32,
    padding: u32,
}

/// Remembers the address of this CPU's packet, and the generation of the rules in which its part is searched.
#[inline(always)]
pub fn remember(address: &Source, generation: u32) {
    if let Some(search) = NARROW_SEARCH.get_ptr_mut(0) {
        // SAFETY: nothing else on this CPU uses the entry while it decides a packet.
        unsafe { search.write(Search { address: *address, generation, padding: 0 }) };
    }
}

/// Returns what this CPU's packet has remembered.
#[inline(always)]
#[must_use]
pub fn remembered() -> Option<(&'static Source, u32)> {
    NARROW_SEARCH.get(0).map(|search| (&search.address, search.generation))
}

/// Returns whether this CPU's packet has searched in this generation of the rules.
#[inline(always)]
#[must_use]
pub fn is_searched_in(generation: u32) -> bool {
    remembered().is_some_and(|(_, searched)| searched == generation)
}
