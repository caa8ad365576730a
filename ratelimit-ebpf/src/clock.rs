//! The time of a packet.

use aya_ebpf::helpers::bpf_ktime_get_ns;
use ratelimit_common::{
    control::Control,
    gcra::{self, Units},
};

use crate::settings;

/// The clock, read once for a packet.
pub struct Clock<'a> {
    control: &'a Control,
    now: u64,
}

impl<'a> Clock<'a> {
    /// Reads the clock.
    #[inline(always)]
    #[must_use]
    pub fn read(control: &'a Control) -> Self {
        Self { control, now: nanoseconds(control) }
    }

    /// The clock of a packet that came at `now`, in nanoseconds.
    #[inline(always)]
    #[must_use]
    pub fn of(control: &'a Control, now: u64) -> Self {
        Self { control, now }
    }

    /// Nanoseconds when the packet came.
    #[inline(always)]
    #[must_use]
    pub fn now(&self) -> u64 {
        self.now
    }

    /// The same as units.
    #[inline(always)]
    #[must_use]
    pub fn units(&self) -> Units {
        gcra::units(self.now)
    }

    /// What the clock reads by now, as units.
    #[inline(always)]
    #[must_use]
    pub fn read_again(&self) -> Units {
        gcra::units(nanoseconds(self.control))
    }
}

/// The monotonic clock, or the one that a test has set.
#[inline(always)]
fn nanoseconds(control: &Control) -> u64 {
    if settings::INJECTED_CLOCK.load() != 0 {
        // SAFETY: a reference is readable; volatile because the user side writes it.
        return unsafe { core::ptr::read_volatile(&raw const control.clock) };
    }
    // SAFETY: the helper takes nothing and has no conditions.
    unsafe { bpf_ktime_get_ns() }
}
