//! The array of events.

use aya_ebpf::{
    btf_maps::{Array, HashMap},
    macros::btf_map,
};
use ratelimit_common::maps::{
    change::Change,
    event::{self, Event, Written},
    names,
};

use crate::bpf::{
    atomic::Word,
    map_flags::{ALIGNED, NO_PREALLOC},
};

/// See [`ratelimit_common::maps::names::EVENTS`].
#[btf_map]
pub static EVENTS: Array<Slot, { event::PLACES as usize }, ALIGNED> = Array::new();

/// See [`ratelimit_common::maps::names::EVENTS_WRITTEN`].
#[btf_map]
pub static EVENTS_WRITTEN: Array<Head, 1, ALIGNED> = Array::new();

/// See [`names::CHANGES`]. The program does not use it.
#[btf_map]
pub static CHANGES: HashMap<u64, Change, { names::CHANGES_MAX as usize }, NO_PREALLOC> = HashMap::new();

/// An [`Event`] in words, which the CPUs share.
pub type Slot = [Word; 8];
const _: () = assert!(size_of::<Slot>() == size_of::<Event>());

/// [`Written`], which the CPUs share.
#[repr(C)]
pub struct Head {
    /// Number of events.
    pub events: Word,
    /// Number of events that were left out.
    pub left_out: Word,
    /// State of the budget for events.
    pub budget: Word,
    reserved: Word,
}
const _: () = assert!(size_of::<Head>() == size_of::<Written>());

/// Returns the numbers of the array as a whole.
#[inline(always)]
#[must_use]
pub fn head() -> Option<&'static Head> {
    EVENTS_WRITTEN.get(0)
}

/// Returns the slot of the event with this number.
#[inline(always)]
#[must_use]
pub fn slot(number: u64) -> Option<&'static Slot> {
    EVENTS.get(event::place(number))
}
