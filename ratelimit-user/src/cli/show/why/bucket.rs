//! What a source has used of its limit, in the answer.

use std::time::Duration;

use ratelimit_base::text::units;
use ratelimit_dataplane::readings::standing::Used;
use serde::Serialize;

/// What a source has used of its burst.
#[derive(Debug, Serialize)]
pub(super) struct BucketRow {
    used_packets: u64,
    burst: u64,
    /// The time until nothing is used.
    full_in_seconds: u64,
}

impl BucketRow {
    pub(super) fn of(Used { packets, burst, full_in }: Used) -> Self {
        Self { used_packets: packets, burst, full_in_seconds: rounded_up(full_in) }
    }

    pub(super) fn text(&self) -> String {
        let Self { used_packets, burst, full_in_seconds } = self;
        let end = match full_in_seconds {
            0 => String::new(),
            seconds => format!(", full again in {}", units::write_duration(Duration::from_secs(*seconds))),
        };
        format!("{used_packets} of {burst} packets used{end}")
    }
}

/// Returns whole seconds.
pub(super) fn rounded_up(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}
