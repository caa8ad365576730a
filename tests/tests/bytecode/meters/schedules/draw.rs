//! Random limits for every algorithm, and arrivals around the moments at which verdicts change.

use proptest::prelude::*;
use ratelimit_common::limits::{
    algorithm::Algorithm,
    limit::{BURST_FRAME, DAY, Limit, Rate, SECOND},
};
use ratelimit_tests::models::{self, Definition};

use crate::meters::{HOUR, MINUTE};

/// Arrival time of a packet, relative to a limit.
#[derive(Debug, Clone)]
pub(crate) enum When {
    /// At the time of the previous packet.
    Now,
    /// Part of a period later, in units of 2⁻¹⁶.
    Later(u64),
    /// At the boundary of a later window.
    Edge(u64),
    /// After this part of a window.
    Part { number: u64, of: u64 },
    /// One period after an admitted packet, counted from the last one.
    After(usize),
    /// After a bucket has regained this number of tokens.
    Interval(u64),
}

/// One packet.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    when: When,
    /// Offset in nanoseconds.
    offset: i64,
    /// Whether the time is relative to the second limit, if there is one.
    by_second: bool,
    /// Whether it is a TCP SYN, if costs apply.
    pub(crate) is_syn: bool,
    /// Bytes of the frame.
    pub(crate) length: usize,
}

fn step() -> impl Strategy<Value = Step> {
    let when = prop_oneof![
        8 => Just(When::Now),
        3 => (0u64..1 << 14).prop_map(When::Later),
        1 => (0u64..1 << 17).prop_map(When::Later),
        2 => (0u64..3).prop_map(When::Edge),
        3 => (1u64..=64).prop_flat_map(|of| (0..=of, Just(of))).prop_map(|(number, of)| When::Part { number, of }),
        2 => (0usize..64).prop_map(When::After),
        2 => (1u64..4).prop_map(When::Interval),
    ];
    let offset = prop::sample::select(&[0, 0, 0, -1, 1, -4_000_000, 4_000_000, 3_999_999, 2_000_000][..]);
    let length = prop_oneof![Just(60usize), 60usize..1_515];
    let (by_second, is_syn) = (any::<bool>(), prop::bool::weighted(0.3));
    (when, offset, by_second, is_syn, length).prop_map(|(when, offset, by_second, is_syn, length)| Step {
        when,
        offset,
        by_second,
        is_syn,
        length,
    })
}

fn rate(least: u64, most: u64, periods: &'static [u64]) -> impl Strategy<Value = Rate> {
    (least..=most, prop::sample::select(periods)).prop_map(|(amount, period)| Rate { amount, period })
}

fn packets() -> impl Strategy<Value = Rate> {
    const PERIODS: &[u64] = &[SECOND, 10 * SECOND, MINUTE, 10 * MINUTE, HOUR, DAY];
    prop_oneof![rate(1, 4, PERIODS), rate(1, 20, PERIODS), rate(1, 64, PERIODS)]
}

fn bytes() -> impl Strategy<Value = Rate> {
    const PERIODS: &[u64] = &[SECOND, 10 * SECOND, MINUTE, HOUR];
    // At least one byte per second.
    prop_oneof![rate(100, 2_000, PERIODS), rate(1_000, 40_000, PERIODS)]
        .prop_map(|Rate { amount, period }| Rate { amount: amount.max(period / SECOND), period })
}

/// Generates one limit or two with this algorithm.
fn limit(algorithm: Algorithm) -> impl Strategy<Value = Limit> {
    let burst = prop_oneof![1u64..4, 1u64..20].prop_map(move |burst| algorithm.is_bucket().then_some(burst));
    let has_bytes = if algorithm == Algorithm::SlidingLog { 0.0 } else { 0.5 };
    let which = (prop::bool::weighted(has_bytes), any::<bool>());
    (packets(), packets(), bytes(), burst, which).prop_map(move |(one, other, bytes, burst, (has_bytes, has_two))| {
        let limit = Limit { burst, algorithm, ..Limit::default() };
        match (has_bytes, has_two) {
            (false, false) => Limit { packets: Some(one), ..limit },
            (false, true) => Limit { packets: Some(one), second_packets: Some(other), ..limit },
            (true, false) => Limit { bytes: Some(bytes), ..limit },
            (true, true) => Limit { packets: Some(one), bytes: Some(bytes), ..limit },
        }
    })
}

/// Generates a valid limit, arrivals, and a start time.
pub(crate) fn schedule(algorithm: Algorithm) -> impl Strategy<Value = (Limit, Vec<Step>, u64)> {
    let possible = limit(algorithm).prop_filter("an invalid limit", |limit| limit.policy().is_ok());
    let start = prop_oneof![0u64..1 << 40, 0u64..1 << 57, (1u64..1 << 4).prop_map(|wraps| (wraps << 54) - SECOND)];
    (possible, prop::collection::vec(step(), 1..70), start)
}

/// Returns the limits in their order, each with its burst.
fn limits(limit: &Limit) -> Vec<(Rate, u64)> {
    let burst = limit.burst.unwrap_or(0);
    // The burst of a second packet limit is its amount per unit of time: a second, a minute, an hour or a day.
    let unit = |rate: Rate| [DAY, HOUR, MINUTE, SECOND].into_iter().find(|unit| rate.period.is_multiple_of(*unit));
    let own = |rate: Rate| (rate.amount * unit(rate).unwrap()).div_ceil(rate.period);
    let packets = limit.packets.map(|rate| (rate, burst));
    let second = limit.second_packets.map(|rate| (rate, own(rate)));
    let bytes = limit.bytes.map(|rate| (rate, burst * u64::from(BURST_FRAME)));
    [packets, second, bytes].into_iter().flatten().collect()
}

/// Returns the model of a limit. A sliding log covers `further` nanoseconds more.
pub(crate) fn define(limit: &Limit, further: u64) -> models::Limits {
    let define = |(rate, burst): (Rate, u64)| -> Box<dyn Definition> {
        match limit.algorithm {
            Algorithm::SlidingLog => Box::new(models::Log::new(rate.amount, rate.period + further)),
            algorithm => models::define(algorithm, rate, burst),
        }
    };
    models::Limits::new(limits(limit).into_iter().map(define).collect())
}

/// Returns the amount of a packet in each limit.
pub(crate) fn amounts(limit: &Limit, cost: u64, length: u64) -> Vec<u64> {
    let packets = limit.packets.iter().chain(&limit.second_packets).map(|_| cost);
    packets.chain(limit.bytes.map(|_| length)).collect()
}

/// Returns whether costs in units of 2⁻⁹ ns are exact. The buckets then match the textbook.
pub(crate) fn is_exact(limit: &Limit) -> bool {
    limits(limit).iter().all(|(rate, _)| (rate.period << 9).is_multiple_of(rate.amount))
}

/// Returns the window lengths.
pub(crate) fn lengths(limit: &Limit) -> Vec<u64> {
    limits(limit).iter().map(|(rate, _)| rate.period).collect()
}

impl Step {
    /// Returns the arrival time, which is not before `now`. `admitted` has the times of admitted packets.
    pub(crate) fn time(&self, limit: &Limit, now: u64, admitted: &[u64]) -> u64 {
        let limits = limits(limit);
        let (Rate { amount, period }, _) = limits[usize::from(self.by_second) % limits.len()];
        let begin = now / period * period;
        let time = match self.when {
            When::Now => return now,
            When::Later(part) => now + ((u128::from(period) * u128::from(part)) >> 16) as u64,
            When::Edge(ahead) => begin + (1 + ahead) * period,
            When::Part { number, of } => {
                let time = begin + (period * number).div_ceil(of);
                if time < now { time + period } else { time }
            }
            When::After(back) => admitted.iter().rev().nth(back).map_or(now, |time| time + period),
            When::Interval(count) => now + (period * count).div_ceil(amount),
        };
        time.saturating_add_signed(self.offset).max(now)
    }
}
