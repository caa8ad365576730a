//! What a source was offered lately: packets, of which each counts less with time.

/// Offered packets, each with the weight that it has left.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Demand {
    /// Sum of the weights, in packets.
    pub packets: f64,
    /// Time of that sum, in seconds.
    pub time: f64,
}

impl Demand {
    /// Returns the demand at `now` after further packets. `memory` is the time, in seconds, in which a weight falls to
    /// 1/e. A time before the last one changes no weight.
    #[must_use]
    pub fn after(self, offered: f64, now: f64, memory: f64) -> Self {
        let passed = (now - self.time).max(0.0);
        Self { packets: self.packets * (-passed / memory).exp() + offered, time: self.time.max(now) }
    }
}
