//! The injected clock of a program.

use aya::maps::{Array, MapData};
use ratelimit_common::maps::control::Control;

/// A handle on the clock. It writes the whole control entry, so rules must not change meanwhile.
pub struct Clock {
    pub(super) map: Array<MapData, Control>,
    pub(super) value: Control,
}

impl Clock {
    /// Advances the clock and returns its new value in nanoseconds.
    ///
    /// # Panics
    ///
    /// If the kernel refuses.
    pub fn advance(&mut self, nanoseconds: u64) -> u64 {
        self.value.clock += nanoseconds;
        self.value.coarse_clock = coarse(&self.value);
        self.map.set(0, self.value, 0).expect("cannot write the control map");
        self.value.clock
    }
}

/// Returns the value of the coarse clock: the last tick, if it has ticks.
pub(super) fn coarse(control: &Control) -> u64 {
    control.clock - control.clock.checked_rem(control.tick).unwrap_or(0)
}
