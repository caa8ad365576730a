//! The entry through which the user side steers the program.

use aya_ebpf::{btf_maps::Array, macros::btf_map};
use ratelimit_common::maps::control::Control;

use crate::bpf::map_flags::ALIGNED;

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
