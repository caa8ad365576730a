//! What searches for parts of IPv6 sources found. Each loaded program has its own map, which no command reads.

use aya_ebpf::{btf_maps::Array, macros::btf_map};
use ratelimit_common::buckets::bucket::Resolution;

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
