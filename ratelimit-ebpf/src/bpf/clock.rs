//! The time of a packet.

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
    /// Reads the precise clock, which is a call.
    #[inline(always)]
    #[must_use]
    pub fn read(control: &'a Control) -> Self {
        Self { control, now: nanoseconds(control) }
    }

    /// Reads the coarse clock: the kernel's last tick, as the precise clock shows it.
    #[inline(always)]
    #[must_use]
    pub fn coarse(control: &'a Control) -> Self {
        Self { control, now: coarse_nanoseconds(control) }
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

    /// See [`Control::largest_debt`].
    #[inline(always)]
    #[must_use]
    pub fn largest_debt(&self) -> Units {
        // SAFETY: a reference is readable; volatile because the user side writes it.
        unsafe { core::ptr::read_volatile(&raw const self.control.largest_debt) }
    }

    /// What the clock reads by now, as units.
    #[inline(always)]
    #[must_use]
    pub fn read_again(&self) -> Units {
        gcra::units(nanoseconds(self.control))
    }
}

/// Writes what both clocks read into the frame's beginning: ticks, and nanoseconds.
#[inline(always)]
pub fn show(ctx: &XdpContext) {
    let at = ctx.data();
    if at + size_of::<[u64; 2]>() <= ctx.data_end() {
        // SAFETY: the helpers take nothing and have no conditions; the bytes lie within the frame.
        unsafe { (at as *mut [u64; 2]).write_unaligned([bpf_jiffies64(), bpf_ktime_get_ns()]) };
    }
}

/// The monotonic clock at the last tick, never more than a tick behind, or the one that a test has set.
#[inline(always)]
fn coarse_nanoseconds(control: &Control) -> u64 {
    if settings::INJECTED_CLOCK.load() != 0 {
        // SAFETY: as below.
        return unsafe { core::ptr::read_volatile(&raw const control.coarse_clock) };
    }
    // SAFETY: the helper takes nothing and has no conditions.
    let ticks = unsafe { bpf_jiffies64() };
    ticks.wrapping_mul(control.tick).wrapping_add(control.tick_zero)
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
