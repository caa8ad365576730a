//! Times to wait, with jitter.

use rustix::rand::{GetRandomFlags, getrandom};

use super::reply::milliseconds;
use crate::check::Decision;

/// Returns the milliseconds after which a refused request may come again. None if it costs more than the limit.
///
/// Up to a tenth is added at random, so that clients that were refused together do not come back together.
pub(crate) fn retry_after_ms(decision: &Decision<'_>) -> Option<u64> {
    let wait = decision.limit.filter(|_| !decision.is_allowed)?.wait?;
    let (wait, part) = (milliseconds(wait), random() >> 48);
    Some(wait.saturating_add(wait / 10 * part / u64::from(u16::MAX)))
}

/// Returns a random number of the system, or 0 if it has none.
pub(crate) fn random() -> u64 {
    let mut bytes = [0; 8];
    let drawn = getrandom(&mut bytes, GetRandomFlags::empty()).is_ok();
    if drawn { u64::from_ne_bytes(bytes) } else { 0 }
}
