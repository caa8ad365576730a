//! How long a limit lasts.

use std::time::Duration;

/// The first limit of a place.
pub(super) const FIRST: Duration = Duration::from_secs(10);
/// The longest limit.
pub const LONGEST: Duration = Duration::from_secs(600);
/// Time after the end of a limit until its repetition is a first one again.
pub(super) const MEMORY: Duration = Duration::from_secs(3_600);

/// Returns how long the next limit lasts, after so many before it.
pub(super) fn next(before: u32) -> Duration {
    1u32.checked_shl(before).map_or(LONGEST, |times| FIRST.saturating_mul(times)).min(LONGEST)
}
