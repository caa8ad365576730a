//! The bucket of a source in the answer.

use std::time::Duration;

use ratelimit_base::text::units;
use ratelimit_common::{
    buckets::bucket::Bucket,
    limits::{
        limit::Limit,
        policy::{LIMIT, Policy},
    },
    meters::{gcra, state},
};
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
    pub(super) fn of(bucket: &Bucket, policy: &Policy, now: u64) -> Option<Self> {
        let (meter, burst) = (&policy.packets, Limit::of(policy).burst?);
        if policy.kind != LIMIT || !policy.is_bucket() || !meter.is_on() {
            return None;
        }
        let debt = state::debt(bucket.packets, gcra::units(now));
        let used_packets = debt.div_ceil(meter.cost_of(1).max(1));
        let full_in = Duration::from_nanos(debt >> gcra::FRACTION_BITS);
        Some(Self { used_packets, burst, full_in_seconds: rounded_up(full_in) })
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
