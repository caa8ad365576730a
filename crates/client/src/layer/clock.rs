//! The clock of the limiter: it never goes back, and began at the Unix epoch.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A clock that steps of the system's clock do not change.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: Instant,
    /// Time of the system's clock at the start, in nanoseconds since the epoch.
    epoch: u64,
}

impl Clock {
    /// Starts it at the time of the system's clock.
    #[must_use]
    pub fn start() -> Self {
        let epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { start: Instant::now(), epoch: u64::try_from(epoch.as_nanos()).unwrap_or(0) }
    }

    /// Returns the nanoseconds since the epoch.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.epoch.saturating_add(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}
