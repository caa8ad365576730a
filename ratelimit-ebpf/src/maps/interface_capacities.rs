//! The interfaces' capacities.

use aya_ebpf::{
    btf_maps::{Array, PerCpuArray},
    macros::btf_map,
};
use ratelimit_common::meters::interface_capacity::{self, PLACES, place};

use crate::bpf::{atomic::Word, map_flags::ALIGNED};

/// See [`ratelimit_common::maps::names::INTERFACE_CAPACITIES`].
#[btf_map]
pub static INTERFACE_CAPACITIES: Array<Capacity, { PLACES as usize }, ALIGNED> = Array::new();

/// See [`ratelimit_common::maps::names::INTERFACE_CAPACITY_LEFT`].
#[btf_map]
pub static INTERFACE_CAPACITY_LEFT: PerCpuArray<Word, { PLACES as usize }> = PerCpuArray::new();

/// An [`interface_capacity::Capacity`], which the CPUs share. Only its state changes while it is in use.
#[repr(transparent)]
pub struct Capacity(interface_capacity::Capacity);

impl Capacity {
    /// Returns the shared state.
    #[inline(always)]
    #[must_use]
    pub fn state(&self) -> &Word {
        Word::of(&self.0.state)
    }

    /// Returns the numbers that do not change.
    #[inline(always)]
    #[must_use]
    pub fn numbers(&self) -> &interface_capacity::Capacity {
        &self.0
    }
}

/// Returns the capacity of an interface, if it has one.
#[inline(always)]
#[must_use]
pub fn get(interface: u32) -> Option<&'static Capacity> {
    let found = INTERFACE_CAPACITIES.get(place(interface));
    found.filter(|capacity| interface != 0 && capacity.0.interface == interface)
}

/// Returns the number of packets that this CPU may still count on an interface without a write to the shared state.
#[inline(always)]
#[must_use]
pub fn left(interface: u32) -> Option<&'static Word> {
    INTERFACE_CAPACITY_LEFT.get(place(interface))
}
