//! When a list is fetched next. No I/O.

use std::time::Duration;

use ratelimit_base::jitter;

/// The pause after the first failure. It doubles with each further one.
const FIRST: Duration = Duration::from_secs(60);

/// The longest pause after a failure.
const LAST: Duration = Duration::from_secs(3_600);

/// A copy that is younger than this needs no request when the daemon starts, so that restarts do not burden the server.
const FRESH: Duration = Duration::from_secs(60);

/// Returns the time until the next request, after so many failures in a row. Up to a tenth is added by `random`, so that
/// hosts do not ask together.
pub(super) fn pause(every: Duration, failures: u32, random: u64) -> Duration {
    let pause = match failures.checked_sub(1) {
        None => every,
        Some(doubled) => FIRST.saturating_mul(2_u32.saturating_pow(doubled)).min(LAST).min(every),
    };
    pause.saturating_add(jitter::part(pause / 10, random))
}

/// Returns the time until the first request, for a copy of this age. None without a copy.
pub(super) fn first(every: Duration, age: Option<Duration>, random: u64) -> Duration {
    match age {
        Some(age) if age < FRESH => pause(every, 0, random).saturating_sub(age),
        _ => Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_tried_again_soon_and_then_less_often() {
        let hour = Duration::from_secs(3_600);
        let pauses: Vec<_> = (0..=8).map(|failures| pause(hour, failures, 0).as_secs()).collect();
        assert_eq!(pauses, [3_600, 60, 120, 240, 480, 960, 1_920, 3_600, 3_600]);
        assert_eq!(pause(24 * hour, u32::MAX, 0), hour);
        assert_eq!(pause(2 * FIRST, 5, 0), 2 * FIRST);
        assert_eq!(pause(hour, 0, u64::MAX), hour + hour / 10);
    }

    #[test]
    fn a_restart_asks_at_once_unless_the_copy_is_fresh() {
        let hour = Duration::from_secs(3_600);
        assert_eq!(first(hour, None, 0), Duration::ZERO);
        assert_eq!(first(hour, Some(FRESH), 0), Duration::ZERO);
        assert_eq!(first(hour, Some(Duration::from_secs(10)), 0), hour - Duration::from_secs(10));
    }
}
