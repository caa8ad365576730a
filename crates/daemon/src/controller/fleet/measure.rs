//! In which unit a limit counts, and the record that hosts share.

use ratelimit_common::{
    buckets::bucket::Bucket,
    fleet::{lease::Lease, share},
    limits::{
        limit::SECOND,
        policy::{Given, LIMIT, Policy},
    },
    meters::gcra::Units,
};
use ratelimit_fleet::key::Key;

/// What a place has counted.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) admitted: u64,
    refused: u64,
    refused_bytes: u64,
}

impl From<Lease> for Counts {
    fn from(Lease { admitted, refused, refused_bytes, .. }: Lease) -> Self {
        Self { admitted, refused, refused_bytes }
    }
}

/// How a limit counts.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Measure {
    /// Key of the source's record.
    pub(super) key: Key,
    /// The limit, in packets, or in bytes if it counts nothing else.
    pub(super) limit: share::Limit,
    /// Costs of a packet and of a byte. 0 is not counted.
    costs: [f64; 2],
    /// Debts that the bursts of both limits allow.
    pub(super) bursts: [Units; 2],
}

/// Packets of a burst of bytes stand for so many bytes each.
const FRAME: f64 = ratelimit_common::limits::limit::BURST_FRAME as f64;

impl Measure {
    /// Returns how a policy counts packets of the source with this name. None if it is no bucket with a limit.
    pub(super) fn of(policy: &Policy, name: &str) -> Option<Self> {
        let Policy { packets, second, given, .. } = policy;
        if policy.kind != LIMIT || !policy.is_bucket() {
            return None;
        }
        let per_second = |amount: u64, period: u64| amount as f64 * SECOND as f64 / period.max(1) as f64;
        let Given { burst, second: second_amount, second_period, .. } = *given;
        let packet = if packets.is_on() { packets.cost_of(1) as f64 } else { 0.0 };
        let byte = if policy.limits_bytes() { second.cost_of(1) as f64 } else { 0.0 };
        let limit = if packets.is_on() {
            share::Limit { rate: per_second(given.packets, given.packets_period), burst: burst as f64 }
        } else {
            share::Limit { rate: per_second(second_amount, second_period), burst: burst as f64 * FRAME }
        };
        let key = Key::of(&format!("{name}{}", second_in_words(policy)), &limit);
        let measure = Self { key, limit, costs: [packet, byte], bursts: [packets.burst, second.burst] };
        (measure.unit() > 0.0 && limit.rate > 0.0 && limit.burst > 0.0).then_some(measure)
    }

    /// Returns the limit of a policy in a few words.
    pub(super) fn in_words(policy: &Policy) -> Option<String> {
        let Self { limit, costs, .. } = Self::of(policy, "")?;
        let of = if counts_packets(&costs) { "" } else { "B" };
        Some(format!("{}{of}{}/s, burst {}", limit.rate, second_in_words(policy), limit.burst))
    }

    /// Returns what a bucket has counted as admitted.
    pub(super) fn admitted(&self, bucket: &Bucket) -> f64 {
        if counts_packets(&self.costs) { bucket.passed() as f64 } else { bucket.passed_bytes as f64 }
    }

    /// Returns the cost of what it counts.
    fn unit(&self) -> f64 {
        let [packet, byte] = self.costs;
        if counts_packets(&self.costs) { packet } else { byte }
    }

    /// Returns how much was admitted and refused between two readings of a place, in packets or bytes. A count that has
    /// become smaller has not grown: the program takes an admitted packet back if another limit refuses it.
    pub(super) fn between(&self, before: Counts, after: Counts) -> [f64; 2] {
        let grown = |before: u64, after: u64| (after.wrapping_sub(before) as i64).max(0) as f64;
        let ([packet, byte], unit) = (self.costs, self.unit());
        let refused = grown(before.refused, after.refused) * packet;
        let refused = refused.max(grown(before.refused_bytes, after.refused_bytes) * byte);
        [grown(before.admitted, after.admitted) / unit, refused / unit]
    }
}

fn counts_packets([packet, _]: &[f64; 2]) -> bool {
    *packet > 0.0
}

/// Returns the second limit of a policy that also limits packets, with its unit. Hosts whose second limits differ share no record.
fn second_in_words(policy: &Policy) -> String {
    let Policy { packets, second, given: Given { second: amount, second_period, .. }, .. } = policy;
    let unit = if policy.limits_bytes() { "B" } else { "" };
    if packets.is_on() && second.is_on() { format!("+{amount}{unit}/{second_period}") } else { String::new() }
}

#[cfg(test)]
mod tests {
    use ratelimit_common::limits::limit::{Limit, Rate};

    use super::*;

    fn per_second(amount: u64) -> Option<Rate> {
        Some(Rate { amount, period: SECOND })
    }

    fn measure(limit: Limit) -> Option<Measure> {
        Measure::of(&limit.policy().unwrap(), "192.0.2.1")
    }

    #[test]
    fn packets_are_counted_in_packets_and_bytes_alone_in_bytes() {
        let packets = Limit { packets: per_second(1_000), burst: Some(50), ..Limit::default() };
        let of_packets = measure(packets).unwrap();
        assert_eq!(of_packets.limit, share::Limit { rate: 1_000.0, burst: 50.0 });
        let cost = packets.policy().unwrap().packets.cost_of(1);
        let after = Lease { admitted: 30 * cost, refused: 7, refused_bytes: 700, ..Lease::default() };
        assert_eq!(of_packets.between(Counts::default(), after.into()), [30.0, 7.0]);
        // A packet that was taken back, also in a place that begins anew.
        assert_eq!(of_packets.between(after.into(), Lease { admitted: 29 * cost, ..after }.into()), [0.0, 0.0]);
        let taken_back = Lease { admitted: cost.wrapping_neg(), ..Lease::default() };
        assert_eq!(of_packets.between(Counts::default(), taken_back.into()), [0.0, 0.0]);

        let bytes = Limit { bytes: per_second(1_000_000), burst: Some(10), ..Limit::default() };
        let of_bytes = measure(bytes).unwrap();
        assert_eq!(of_bytes.limit, share::Limit { rate: 1e6, burst: 15_140.0 });
        let cost = bytes.policy().unwrap().second.cost_of(1);
        let after = Lease { admitted: 600 * cost, refused: 7, refused_bytes: 700, ..Lease::default() };
        let [admitted, refused] = of_bytes.between(Counts::default(), after.into());
        assert!((admitted - 600.0).abs() < 1e-6 && (refused - 700.0).abs() < 1e-6, "{admitted} {refused}");
    }

    #[test]
    fn limits_that_differ_have_different_records() {
        let limit = Limit { packets: per_second(1_000), ..Limit::default() };
        let all = [
            limit,
            Limit { packets: per_second(2_000), ..limit },
            Limit { burst: Some(7), ..limit },
            Limit { bytes: per_second(1_000_000), ..limit },
            Limit { second_packets: Some(Rate { amount: 5_000, period: 60 * SECOND }), ..limit },
            Limit { packets: per_second(1_000), bytes: Some(Rate { amount: 5_000, period: 60 * SECOND }), ..limit },
        ];
        let keys: std::collections::HashSet<_> = all.iter().map(|limit| measure(*limit).unwrap().key).collect();
        assert_eq!(keys.len(), all.len());
    }

    #[test]
    fn what_is_no_bucket_is_not_shared() {
        for policy in [Policy::UNLIMITED, Policy::ALLOWED, Policy::DENIED, Policy::BANNED] {
            assert_eq!(Measure::of(&policy, "192.0.2.1"), None);
        }
        let algorithm = ratelimit_common::limits::algorithm::Algorithm::FixedWindow;
        assert_eq!(measure(Limit { packets: per_second(10), algorithm, ..Limit::default() }), None);
    }
}
