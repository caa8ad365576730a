//! Counters by reason, for all interfaces together or for each one.

use aya_ebpf::{
    btf_maps::{Array, PerCpuArray},
    macros::btf_map,
};
use ratelimit_common::{
    maps::interface_counters::{Counts, Ledger, OTHERS, PLACES, TRIES},
    reason::{Count, REASONS},
};

use crate::bpf::atomic::Word;

/// See [`ratelimit_common::maps::names::COUNTERS`].
#[btf_map]
pub static COUNTERS: PerCpuArray<Counter, { 2 * REASONS }> = PerCpuArray::new();

/// See [`ratelimit_common::maps::names::LEDGER`].
#[btf_map]
pub static LEDGER: Array<Ledger, 1> = Array::new();

/// See [`ratelimit_common::maps::names::INTERFACE_COUNTERS`].
#[btf_map]
pub static INTERFACE_COUNTERS: PerCpuArray<Counters, { PLACES + 1 }> = PerCpuArray::new();

/// A [`Count`] that only its CPU writes. Nothing interrupts a program on received packets to run it again.
#[repr(C)]
pub struct Counter {
    packets: Word,
    bytes: Word,
}
const _: () = assert!(size_of::<Counter>() == size_of::<Count>());

/// The [`Counts`] of an interface on one CPU.
#[repr(C)]
pub struct Counters {
    /// Counters of the packets' reasons.
    pub done: [Counter; REASONS],
    /// Counters of packets that passed in shadow.
    pub shadow: [Counter; REASONS],
}
const _: () = assert!(size_of::<Counters>() == size_of::<Counts>());

impl Counter {
    /// Counts one packet of `length` bytes.
    #[inline(always)]
    pub fn add(&self, length: u32) {
        self.packets.increment();
        self.bytes.store(self.bytes.load().wrapping_add(u64::from(length)));
    }
}

/// Returns the counter with this index: a reason, or [`REASONS`] and a reason for packets that passed in shadow.
#[inline(always)]
#[must_use]
pub fn of_reason(index: u32) -> Option<&'static Counter> {
    COUNTERS.get(index)
}

/// Returns the counters of an interface.
#[inline(always)]
#[must_use]
pub fn of_interface(interface: u32) -> Option<&'static Counters> {
    INTERFACE_COUNTERS.get(place_of(interface))
}

/// Returns the place of an interface, or that of all interfaces without one.
#[inline(always)]
#[must_use]
pub fn place_of(interface: u32) -> u32 {
    LEDGER.get(0).map_or(OTHERS, |ledger| place(ledger, interface))
}

/// Returns the place of an interface. Written without a loop, see [`crate::bpf::verifier`].
#[inline(always)]
fn place(ledger: &Ledger, interface: u32) -> u32 {
    const { assert!(TRIES == 4) };
    if ledger.has(interface, 0) {
        Ledger::place(interface, 0)
    } else if ledger.has(interface, 1) {
        Ledger::place(interface, 1)
    } else if ledger.has(interface, 2) {
        Ledger::place(interface, 2)
    } else if ledger.has(interface, 3) {
        Ledger::place(interface, 3)
    } else {
        OTHERS
    }
}
