//! The leases of sources.

use aya_ebpf::{btf_maps::Array, macros::btf_map};
use ratelimit_common::fleet::lease;

use crate::{
    bpf::{atomic::Word, map_flags::ALIGNED, settings},
    maps::cells::{self, Cell},
};

/// See [`ratelimit_common::maps::names::LEASES`].
#[btf_map]
pub static LEASES: Array<Lease, { lease::LEASES as usize }, ALIGNED> = Array::new();

/// A [`lease::Lease`], which the CPUs share, and the user side renews.
#[repr(C)]
#[expect(missing_docs, reason = "they are those of `lease::Lease`")]
pub struct Lease {
    pub source: Word,
    pub end: Word,
    pub multiplier: Word,
    pub packets: Word,
    pub second: Word,
    pub admitted: Word,
    pub refused: Word,
    pub refused_bytes: Word,
}
const _: () = assert!(size_of::<Lease>() == size_of::<lease::Lease>());

/// Returns whether the source with this hash may have a lease. Most cells tell that none of their sources has one.
#[inline(always)]
#[must_use]
pub fn may_have(hash: u64) -> bool {
    !settings::has_cells() || cells::of(hash).is_some_and(Cell::is_leased)
}

/// Returns the lease that the source with this hash has at `now`.
#[inline(always)]
#[must_use]
pub fn find(hash: u64, now: u64) -> Option<&'static Lease> {
    let first = lease::first_place(hash, settings::LEASES.load());
    // No loop, as the verifier of Linux 6.1 demands.
    at(first, hash, now)
        .or_else(|| at(first + 1, hash, now))
        .or_else(|| at(first + 2, hash, now))
        .or_else(|| at(first + 3, hash, now))
}

#[inline(always)]
fn at(place: u32, hash: u64, now: u64) -> Option<&'static Lease> {
    LEASES.get(place).filter(|lease| lease.source.load() == hash && now < lease.end.load())
}
