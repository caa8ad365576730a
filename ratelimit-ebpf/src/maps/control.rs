//! The entry through which the user side steers the program, and its fields that change while packets are decided. Each
//! read of those is one volatile load.

use core::ptr;

use aya_ebpf::{btf_maps::Array, macros::btf_map};
use ratelimit_common::{identity::narrow::Lengths, maps::control::Control, rules::list::Slots};

use crate::bpf::{atomic, map_flags::ALIGNED};

/// See [`ratelimit_common::maps::names::CONTROL`].
#[btf_map]
pub static CONTROL: Array<Control, 1, ALIGNED> = Array::new();

/// Returns the control entry. A packet reads it once, and functions hand it on.
#[inline(always)]
#[must_use]
pub fn get() -> Option<&'static Control> {
    #[cfg(test)]
    return crate::bpf::schedule::own::control();
    #[cfg(not(test))]
    CONTROL.get(0)
}

/// Returns the running generation of the rules.
#[inline(always)]
#[must_use]
pub fn generation(control: &Control) -> u32 {
    // SAFETY: a reference is readable.
    unsafe { ptr::read_volatile(&raw const control.generation) }
}

/// Returns the running generation, read before everything that follows. A rule that changes meanwhile makes the result
/// stale, never wrong.
#[inline(always)]
#[must_use]
pub fn generation_first(control: &Control) -> u32 {
    atomic::read_first(&control.generation)
}

/// Returns the lengths of parts of IPv6 sources with rules.
#[inline(always)]
#[must_use]
pub fn narrow_lengths(control: &Control) -> Lengths {
    // SAFETY: a reference is readable.
    Lengths(unsafe { ptr::read_volatile(&raw const control.narrow_rules) })
}

/// Returns the slots of the lists in force in a generation of the rules.
#[inline(always)]
#[must_use]
pub fn lists(control: &Control, generation: u32) -> Slots {
    // SAFETY: a reference is readable.
    let [even, odd] = unsafe {
        let lists = &raw const control.lists;
        [ptr::read_volatile(&raw const (*lists)[0]), ptr::read_volatile(&raw const (*lists)[1])]
    };
    if generation & 1 == 0 { even } else { odd }
}

/// Returns the generation from which on the cells' shares are smaller. See [`Control::cell_shares_since`].
#[inline(always)]
#[must_use]
pub fn cell_shares_since(control: &Control) -> u32 {
    // SAFETY: a reference is readable.
    unsafe { ptr::read_volatile(&raw const control.cell_shares_since) }
}
