//! The time of a packet.

use aya_ebpf::helpers::bpf_ktime_get_ns;
use ratelimit_common::control::Control;

use crate::settings;

/// Nanoseconds of the monotonic clock, or of the clock that a test has set.
#[inline(always)]
#[must_use]
pub fn now(control: &Control) -> u64 {
    if settings::INJECTED_CLOCK.load() != 0 {
        // SAFETY: a reference is readable; volatile because the user side writes it.
        return unsafe { core::ptr::read_volatile(&raw const control.clock) };
    }
    // SAFETY: the helper takes nothing and has no conditions.
    unsafe { bpf_ktime_get_ns() }
}
