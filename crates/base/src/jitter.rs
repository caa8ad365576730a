//! Times to wait, with jitter.

use std::time::Duration;

/// Returns a random number, which others may guess.
pub fn random() -> u64 {
    fastrand::u64(..)
}

/// Returns a time from 0 to `most`, of which `random` chooses one.
pub fn part(most: Duration, random: u64) -> Duration {
    let most = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
    let part = (u128::from(random) * (u128::from(most) + 1)) >> 64;
    Duration::from_nanos(u64::try_from(part).unwrap_or(most))
}
