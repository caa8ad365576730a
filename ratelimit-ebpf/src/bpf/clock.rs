//! The time of a packet.
//!
//! The verifier inlines `bpf_jiffies64`, while `bpf_ktime_get_ns` is a call. So the time of a packet first comes from
//! ticks, which are behind by at most one tick. Policies without `COARSE` read the precise clock. The user side runs the
//! program `ticks` for three ticks when it creates an instance, and writes the tick's length and zero point into the
//! control entry.

use aya_ebpf::{
    helpers::{bpf_jiffies64, bpf_ktime_get_ns},
    programs::XdpContext,
};
use ratelimit_common::{
    maps::control::Control,
    meters::gcra::{self, Units},
};

use crate::bpf::settings;

/// The clock, read once for a packet.
pub struct Clock<'a> {
    control: &'a Control,
    now: u64,
}

impl<'a> Clock<'a> {
    /// Reads the precise clock. This is a helper call.
    #[inline(always)]
    #[must_use]
    pub fn read(control: &'a Control) -> Self {
        Self { control, now: nanoseconds(control) }
    }

    /// Reads the coarse clock: the kernel's last tick in the time of the precise clock.
    #[inline(always)]
    #[must_use]
    pub fn coarse(control: &'a Control) -> Self {
        Self { control, now: coarse_nanoseconds(control) }
    }

    /// Returns the clock of a packet that arrived at `now`, in nanoseconds.
    #[inline(always)]
    #[must_use]
    pub fn of(control: &'a Control, now: u64) -> Self {
        Self { control, now }
    }

    /// Returns the control entry, from which a global function makes the clock again.
    #[inline(always)]
    #[must_use]
    pub fn control(&self) -> &'a Control {
        self.control
    }

    /// Returns the packet's time in nanoseconds.
    #[inline(always)]
    #[must_use]
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Returns the packet's time in units.
    #[inline(always)]
    #[must_use]
    pub fn units(&self) -> Units {
        gcra::units(self.now)
    }

    /// Returns the largest debt that any limit in use can have. See [`Control::largest_debt`].
    #[inline(always)]
    #[must_use]
    pub fn largest_debt(&self) -> Units {
        // SAFETY: a reference is readable; volatile because the user side writes it.
        unsafe { core::ptr::read_volatile(&raw const self.control.largest_debt) }
    }

    /// Reads the precise clock again, in units.
    #[inline(always)]
    #[must_use]
    pub fn read_again(&self) -> Units {
        gcra::units(nanoseconds(self.control))
    }
}

/// Writes both clocks into the frame's beginning: ticks, and nanoseconds.
#[inline(always)]
pub fn show(ctx: &XdpContext) {
    let at = ctx.data();
    if at + size_of::<[u64; 2]>() <= ctx.data_end() {
        // SAFETY: the helpers take nothing and have no conditions; the bytes lie within the frame.
        unsafe { (at as *mut [u64; 2]).write_unaligned([bpf_jiffies64(), bpf_ktime_get_ns()]) };
    }
}

/// Returns the monotonic clock at the last tick, or the clock that a test has set.
#[inline(always)]
fn coarse_nanoseconds(control: &Control) -> u64 {
    if cfg!(test) || settings::INJECTED_CLOCK.load() != 0 {
        // SAFETY: as below.
        return unsafe { core::ptr::read_volatile(&raw const control.coarse_clock) };
    }
    // SAFETY: the helper takes nothing and has no conditions.
    let ticks = unsafe { bpf_jiffies64() };
    ticks.wrapping_mul(control.tick).wrapping_add(control.tick_zero)
}

/// Returns the monotonic clock, or the clock that a test has set.
#[inline(always)]
fn nanoseconds(control: &Control) -> u64 {
    if cfg!(test) || settings::INJECTED_CLOCK.load() != 0 {
        // SAFETY: a reference is readable; volatile because the user side writes it.
        return unsafe { core::ptr::read_volatile(&raw const control.clock) };
    }
    // SAFETY: the helper takes nothing and has no conditions.
    unsafe { bpf_ktime_get_ns() }
}
