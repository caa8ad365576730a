//! Random limits and arrivals for buckets, and their model.

use proptest::prelude::*;
use ratelimit_common::{
    limits::{
        limit::{DAY, Limit, Rate, SECOND},
        policy::Policy,
    },
    meters::{
        gcra::{Answer, units},
        meter::Meter,
    },
    reason::Reason,
};

/// One packet of a schedule.
#[derive(Debug, Clone)]
pub(crate) struct Arrival {
    /// Nanoseconds since the previous packet.
    pub(crate) gap: u64,
    /// Bytes of the frame.
    pub(crate) length: usize,
}

/// Generates rates evenly distributed over orders of magnitude.
fn rate(most_per_second: u64) -> impl Strategy<Value = Rate> {
    let period = prop::sample::select(&[SECOND, 60 * SECOND, 3600 * SECOND, DAY][..]);
    let digits = 0..=most_per_second.ilog10();
    (period, digits, any::<u64>()).prop_map(move |(period, digits, random)| {
        let most = most_per_second * (period / SECOND);
        let amount = 10u64.pow(digits) + random % (9 * 10u64.pow(digits));
        Rate { amount: amount.min(most), period }
    })
}

fn limit() -> impl Strategy<Value = Limit> {
    let packets = prop::option::weighted(0.8, rate(100_000_000));
    let bytes = prop::option::weighted(0.4, rate(50_000_000_000));
    let burst = prop_oneof![1u64..4, 1u64..50, 1u64..100_000].prop_map(Some);
    (packets, bytes, burst).prop_map(|(packets, bytes, burst)| Limit { packets, bytes, burst, ..Limit::default() })
}

/// Longest schedule. After 156 days, the time of a bucket that its cell has spared can look like a debt.
const LONGEST: u64 = 150 * DAY;

/// Generates gaps around the time per packet, so that many verdicts are close.
fn arrivals(limit: &Limit) -> impl Strategy<Value = Vec<Arrival>> + use<> {
    let interval = |rate: Rate, count: u64| (rate.period / rate.amount.max(1)).saturating_mul(count).max(1);
    let typical = limit.packets.map(|rate| interval(rate, 1)).or(limit.bytes.map(|rate| interval(rate, 100)));
    let typical = typical.unwrap_or(1).min(DAY);
    let gap = prop_oneof![
        4 => Just(0),
        4 => 0..=typical,
        2 => typical..=typical * 4,
        1 => (0..=typical).prop_map(|gap| gap * 60),
        1 => Just(typical),
    ];
    let arrivals =
        prop::collection::vec((gap, 42usize..1_514).prop_map(|(gap, length)| Arrival { gap, length }), 1..60);
    arrivals.prop_map(|arrivals| {
        let within = |time: &mut u64, arrival: Arrival| {
            *time += arrival.gap;
            (*time < LONGEST).then_some(arrival)
        };
        arrivals.into_iter().scan(0, within).collect()
    })
}

/// Generates a limit, its policy, arrivals, and a start time.
pub(crate) fn schedule() -> impl Strategy<Value = (Policy, Limit, Vec<Arrival>, u64)> {
    let possible = limit().prop_filter_map("an invalid limit", |limit| Some((limit.policy().ok()?, limit)));
    // Any time within nine years of the clock, and times around which it wraps in units.
    let start = prop_oneof![0u64..1 << 40, 0u64..1 << 57, (1u64..1 << 4).prop_map(|wraps| (wraps << 54) - SECOND)];
    (possible, start)
        .prop_flat_map(|((policy, limit), start)| (Just(policy), Just(limit), arrivals(&limit), Just(start)))
}

/// Model of the limits, from the algorithm alone.
pub(crate) struct Model<'a> {
    policy: &'a Policy,
    packets: u64,
    bytes: u64,
}

impl<'a> Model<'a> {
    /// Returns the model of a source that has sent nothing before `start`.
    pub(crate) fn new(policy: &'a Policy, start: u64) -> Self {
        Self { policy, packets: units(start), bytes: units(start) }
    }

    /// Returns the reason for a packet of `length` bytes at `now`.
    pub(crate) fn decide(&mut self, now: u64, length: u32) -> Reason {
        let ask = |meter: &Meter, state: u64, amount: u32| match meter.is_on() {
            true => meter.ask(state, units(now), meter.cost_of(amount)),
            false => Answer::Admit(state),
        };
        let Answer::Admit(bytes) = ask(&self.policy.second, self.bytes, length) else { return Reason::OverBytes };
        let Answer::Admit(packets) = ask(&self.policy.packets, self.packets, 1) else { return Reason::OverPackets };
        (self.packets, self.bytes) = (packets, bytes);
        Reason::WithinLimit
    }
}
