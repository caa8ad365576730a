//! What a rule would have refused of the packets that sources have sent.
//!
//! The times of packets within a minute are not known. A limit refuses least if they come when it has most room. So a source
//! is hit only if it is, whenever its packets came.

use ratelimit_common::limits::{
    limit::{BURST_FRAME, Limit, Rate},
    policy::{ALLOW, LIMIT, Policy},
};
use ratelimit_dataplane::{
    readings::hour::{Sent, Span, counts::Counts},
    rules::spec::RuleSpec,
};
use ratelimit_protocol::view::Effect;

/// Sources of which a rule refuses packets, those with the most of them first. `sample` packets in a minute can be one.
pub(super) fn of(spec: &RuleSpec, sent: &[Sent], sample: u64) -> (Effect, Vec<(usize, u64)>) {
    let mut effect = Effect::default();
    let mut hit = Vec::new();
    for (place, source) in sent.iter().enumerate() {
        let refused = refused(&spec.policy, source, sample);
        if refused > 0 {
            effect.hit += 1;
            effect.packets = effect.packets.saturating_add(source.all.packets);
            effect.refused = effect.refused.saturating_add(refused);
            hit.push((place, refused));
        }
    }
    hit.sort_by_key(|(_, refused)| std::cmp::Reverse(*refused));
    (effect, hit)
}

/// Returns the packets of a source that a policy refuses at least.
fn refused(policy: &Policy, sent: &Sent, sample: u64) -> u64 {
    match policy.kind {
        ALLOW => 0,
        LIMIT => meters(policy).into_iter().map(|meter| meter.refused(sent, sample)).max().unwrap_or(0),
        _ => sent.all.packets,
    }
}

/// One rate of a limit.
struct Meter {
    /// Per nanosecond.
    rate: f64,
    burst: f64,
    counts_bytes: bool,
}

fn meters(policy: &Policy) -> Vec<Meter> {
    let limit = Limit::of(policy);
    // A window can admit twice its amount around its end.
    let spare = if limit.algorithm.is_bucket() { 1.0 } else { 2.0 };
    let meter = |rate: Rate, burst: u64, counts_bytes: bool| Meter {
        rate: rate.amount as f64 / rate.period.max(1) as f64,
        burst: burst as f64 * spare,
        counts_bytes,
    };
    let amount = |rate: Rate| rate.amount;
    let burst = |least: u64| limit.burst.map_or(least, |burst| if spare > 1.0 { burst.max(least) } else { burst });
    let bytes = |rate: Rate| burst(0).saturating_mul(u64::from(BURST_FRAME)).max(rate.amount);
    let packets = limit.packets.map(|rate| meter(rate, burst(amount(rate)), false));
    let second = limit.second_packets.map(|rate| meter(rate, amount(rate), false));
    let bytes = limit.bytes.map(|rate| meter(rate, bytes(rate), true));
    packets.into_iter().chain(second).chain(bytes).collect()
}

impl Meter {
    fn refused(&self, sent: &Sent, sample: u64) -> u64 {
        // Any interval admits one packet more.
        let mut room = self.burst + 1.0;
        let (mut last, mut refused) = (None, 0.0);
        for (Span { begin, end }, counts) in &sent.minutes {
            if let Some(last) = last {
                room = (room + self.rate * begin.saturating_sub(last) as f64).min(self.burst);
            }
            last = Some(*end);
            let offered = self.offered(counts, sample);
            let open = room + self.rate * end.saturating_sub(*begin) as f64;
            let admitted = offered.min(open);
            room = (open - admitted).min(self.burst);
            refused += (offered - admitted) * self.packets_of(counts);
        }
        // Without what a sum of fractions lacks.
        (refused + 1e-6) as u64
    }

    /// Returns what counts. One sample proves nothing.
    fn offered(&self, counts: &Counts, sample: u64) -> f64 {
        match (sample > 1 && counts.packets <= sample, self.counts_bytes) {
            (true, _) => 0.0,
            (false, true) => counts.bytes as f64,
            (false, false) => counts.packets as f64,
        }
    }

    /// Returns the packets that stand for one unit of what counts.
    fn packets_of(&self, counts: &Counts) -> f64 {
        if self.counts_bytes { counts.packets as f64 / counts.bytes.max(1) as f64 } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use ratelimit_common::{
        identity::{service::Service, source::Source},
        limits::{algorithm::Algorithm, limit::SECOND},
    };

    use super::*;

    const MINUTE: u64 = 60 * SECOND;

    /// A source that has sent so many packets of 100 bytes in each minute.
    fn sent(packets: &[u64]) -> Sent {
        let minute = |(number, packets): (u64, u64)| {
            let counts = Counts { packets, bytes: 100 * packets, dropped: 0 };
            (Span { begin: number * MINUTE, end: (number + 1) * MINUTE }, counts)
        };
        let minutes: Vec<_> =
            (0..).zip(packets.iter().copied()).filter(|(_, packets)| *packets > 0).map(minute).collect();
        let mut all = Counts::default();
        minutes.iter().for_each(|(_, counts)| all.add(*counts));
        Sent { source: Source::v4([192, 0, 2, 1]), service: Service::Any, all, minutes }
    }

    fn of_limit(limit: Limit, packets: &[u64], sample: u64) -> u64 {
        refused(&limit.policy().unwrap(), &sent(packets), sample)
    }

    fn limit(amount: u64, period: u64, burst: u64) -> Limit {
        Limit { packets: Some(Rate { amount, period }), burst: Some(burst), ..Limit::default() }
    }

    #[test]
    fn a_source_is_hit_if_a_minute_has_more_than_the_rate_and_the_burst_allow() {
        let ten = limit(10, SECOND, 50);
        assert_eq!(of_limit(ten, &[650], 1), 0);
        assert_eq!(of_limit(ten, &[651], 1), 0);
        assert_eq!(of_limit(ten, &[700], 1), 49);
        // The burst is full again only after a calmer minute.
        assert_eq!(of_limit(ten, &[651, 651], 1), 51);
        assert_eq!(of_limit(ten, &[651, 0, 650], 1), 0);
        assert_eq!(of_limit(ten, &[600; 60], 1), 0);
        // A limit for longer than a minute.
        let hourly = limit(100, 60 * MINUTE, 100);
        assert_eq!(of_limit(hourly, &[10; 60], 1), 600 - 201);
    }

    #[test]
    fn two_rates_bytes_and_windows_count_too() {
        let both = Limit { second_packets: Some(Rate { amount: 100, period: 60 * MINUTE }), ..limit(10, SECOND, 50) };
        assert_eq!(of_limit(both, &[300], 1), 197);
        let bytes = Limit { bytes: Some(Rate { amount: 10_000, period: SECOND }), burst: Some(1), ..Limit::default() };
        assert_eq!(of_limit(bytes, &[6_000], 1), 0);
        assert_eq!(of_limit(bytes, &[12_000], 1), 5_899);
        let window = Limit { algorithm: Algorithm::FixedWindow, burst: None, ..limit(100, MINUTE, 0) };
        assert_eq!((of_limit(window, &[300], 1), of_limit(window, &[400], 1)), (0, 99));
    }

    #[test]
    fn one_sample_in_a_minute_hits_nobody() {
        let one = limit(1, SECOND, 1);
        assert_eq!((of_limit(one, &[256], 256), of_limit(one, &[512], 256)), (0, 450));
        assert_eq!(of_limit(one, &[256], 1), 194);
    }

    #[test]
    fn a_deny_hits_all_and_an_allow_none() {
        let all = [sent(&[5]), sent(&[256, 7])];
        let (effect, hit) = of(&Policy::DENIED.into(), &all, 256);
        assert_eq!((effect, hit), (Effect { hit: 2, packets: 268, refused: 268 }, vec![(1, 263), (0, 5)]));
        assert_eq!(of(&Policy::ALLOWED.into(), &all, 256).0, Effect::default());
    }
}
