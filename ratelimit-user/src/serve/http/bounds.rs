//! Bounds of each call.

use std::time::Duration;

/// The largest body in bytes.
pub(super) const BODY: usize = 64 << 10;
/// The time in which a call must arrive and be answered.
pub(super) const TIME: Duration = Duration::from_secs(5);
