//! When a refused request may come again.

use std::time::Duration;

use ratelimit_base::jitter::{part, random};
use ratelimit_limiter::Decision;

/// Returns the milliseconds after which a refused request may come again. None if it costs more than the limit.
///
/// Up to a tenth is added at random, so that clients that were refused together do not come back together.
pub fn retry_after_ms(decision: &Decision<'_>) -> Option<u64> {
    let wait = decision.limit.filter(|_| !decision.is_allowed)?.wait?;
    Some(milliseconds(wait.saturating_add(part(wait / 10, random()))))
}

/// Returns whole milliseconds, rounded up.
pub(super) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
