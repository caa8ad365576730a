//! Times to wait, with jitter.

use std::time::Duration;

use crate::check::Decision;

/// Returns the milliseconds after which a refused request may come again. None if it costs more than the limit.
///
/// Up to a tenth is added at random, so that clients that were refused together do not come back together.
pub(crate) fn retry_after_ms(decision: &Decision<'_>) -> Option<u64> {
    let wait = decision.limit.filter(|_| !decision.is_allowed)?.wait?;
    Some(milliseconds(wait.saturating_add(part(wait / 10, random()))))
}

/// Returns a random number, which others may guess.
pub(crate) fn random() -> u64 {
    fastrand::u64(..)
}

/// Returns whole milliseconds, rounded up.
pub(super) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// Returns a time from 0 to `most`, of which `random` chooses one.
pub(crate) fn part(most: Duration, random: u64) -> Duration {
    let most = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
    let part = (u128::from(random) * (u128::from(most) + 1)) >> 64;
    Duration::from_nanos(u64::try_from(part).unwrap_or(most))
}
