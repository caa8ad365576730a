//! Fields of the control entry that the user side changes while packets are decided. Each read is one volatile load.

use core::ptr;

use ratelimit_common::{identity::narrow::Lengths, maps::control::Control, meters::gcra::Units, rules::list::Slots};

use crate::bpf::atomic;

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

/// Returns the largest debt of the limits in use. See [`Control::largest_debt`].
#[inline(always)]
#[must_use]
pub fn largest_debt(control: &Control) -> Units {
    // SAFETY: a reference is readable.
    unsafe { ptr::read_volatile(&raw const control.largest_debt) }
}

/// Returns the generation from which on the cells' shares are smaller. See [`Control::cell_shares_since`].
#[inline(always)]
#[must_use]
pub fn cell_shares_since(control: &Control) -> u32 {
    // SAFETY: a reference is readable.
    unsafe { ptr::read_volatile(&raw const control.cell_shares_since) }
}
