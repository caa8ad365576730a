//! The clock of a capture: it follows the times of packets, but never goes back.

use std::time::Duration;

use ratelimit_common::limits::limit::SECOND;

/// Packets of several queues can be captured in another order than their times. An earlier time by more than this is a
/// clock that was set.
const DISORDER: u64 = SECOND;

/// The most nanoseconds between two packets, 30 days. No source remembers more.
const MOST: u64 = 30 * 24 * 3_600 * SECOND;

/// The clock.
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// Nanoseconds since the first packet.
    now: u64,
    /// The capture's time at `now`.
    at: Option<u64>,
    /// How often the capture's clock was set back.
    pub(super) set_back: u64,
}

impl Clock {
    /// Returns the time of a packet: nanoseconds since the first one. A packet without a time comes with the one before.
    pub(super) fn time(&mut self, time: Option<u64>) -> u64 {
        let Some(time) = time else { return self.now };
        let at = *self.at.get_or_insert(time);
        if time >= at {
            self.now = self.now.saturating_add((time - at).min(MOST));
            self.at = Some(time);
        } else if at - time > DISORDER {
            self.at = Some(time);
            self.set_back += 1;
        }
        self.now
    }

    /// Returns the time between the first packet and the last.
    pub(super) fn span(&self) -> Duration {
        Duration::from_nanos(self.now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_follows_packets_and_never_goes_back() {
        let mut clock = Clock::default();
        let times = [50, 52, 51, 53, 20, 21, 21];
        let seen = times.map(|time| clock.time(Some(time * SECOND)) / SECOND);
        assert_eq!((seen, clock.set_back), ([0, 2, 2, 3, 3, 4, 4], 1));
        assert_eq!(clock.time(None) / SECOND, 4);
        // A damaged time stops nothing.
        let far = clock.time(Some(u64::MAX));
        assert_eq!(far, 4 * SECOND + MOST);
        assert_eq!([clock.time(Some(22 * SECOND)), clock.time(Some(23 * SECOND))], [far, far + SECOND]);
    }
}
