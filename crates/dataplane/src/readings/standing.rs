//! Where a source stands in its own limits: what it has used, and when its next packet passes.
//!
//! The kernel side decides with the same arithmetic. The levels of a cell are those of all its sources, so a source that
//! shares its cell is shown at its worst, which is what its next packet meets.

use std::time::Duration;

use ratelimit_common::{
    buckets::{bucket::Bucket, sliding_log::Log},
    identity::{class::Classes, source::Source},
    limits::{
        algorithm::Algorithm,
        policy::{LIMIT, Policy},
    },
    maps::{
        control::FEATURE_LANES,
        levels::{self, Levels},
    },
    meters::{
        gcra::{self, Units},
        meter::Meter,
        sliding_log::{Place, decisive, place},
        stages, state,
        window::Window,
    },
};

use super::source_counts::SourceCounts;
use crate::{Error, rules::resolve, sys::host};

/// Bytes of the smallest frame, which is what a limit of bytes is asked for.
const SMALLEST_FRAME: u32 = 60;

/// Where a source stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Standing {
    /// What it has used of its limit of packets. None if nothing has counted it, and without such a limit.
    pub used: Option<Used>,
    /// The time until its next packet passes. Zero if it passes now.
    pub wait: Duration,
}

/// What a source has used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Used {
    /// Packets that count at present.
    pub packets: u64,
    /// Packets that may count.
    pub burst: u64,
    /// The time until nothing counts.
    pub full_in: Duration,
}

/// Debts of one limit.
#[derive(Debug, Clone, Copy)]
struct Debts {
    /// Of the level in front of the bucket. None without cells.
    level: Option<Units>,
    /// Of the bucket. None without one.
    own: Option<Units>,
}

impl SourceCounts<'_> {
    /// Returns where a source stands with packets of these classes, while it is not banned. Parents, fleets, allowances
    /// and the limit of unknown sources are not asked.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses.
    pub fn standing(&self, source: &Source, classes: Classes) -> Result<Standing, Error> {
        let now = host::now();
        let (slot, billed) = resolve::limit_of(self.tables(), source, classes, now)?;
        let (source, policy) = (&source.of_class(billed), &self.tables().policies.get(slot)?);
        if policy.kind != LIMIT {
            return Ok(Standing::default());
        }
        if policy.algorithm == Algorithm::SlidingLog as u8 {
            return Ok(self.log(source)?.map_or_else(Standing::default, |log| of_log(&log, policy, now)));
        }
        let bucket = self.bucket(source)?;
        if !policy.is_bucket() {
            return Ok(bucket.map_or_else(Standing::default, |bucket| of_windows(&bucket, policy, now)));
        }
        let levels = self.levels(source, policy)?;
        let (most, now) = (self.control().largest_debt, gcra::units(now));
        let debts = |level: fn(&Levels) -> u64, own: fn(&Bucket) -> u64| Debts {
            level: levels.as_ref().map(|levels| stages::level_debt(level(levels), now, most)),
            own: bucket.as_ref().map(|bucket| state::debt(own(bucket), now)),
        };
        let (packets, second) = (
            debts(|levels| levels.packets, |bucket| bucket.packets),
            debts(|levels| levels.second, |bucket| bucket.second),
        );
        let also = policy.second_amount(SMALLEST_FRAME, 1);
        let wait = packets.wait(1, &policy.packets).max(second.wait(also, &policy.second));
        Ok(Standing { used: packets.used(policy), wait: duration(wait) })
    }

    /// Returns the levels that packets of a source charge. None without cells.
    fn levels(&self, source: &Source, policy: &Policy) -> Result<Option<Levels>, Error> {
        let Some(cell) = self.cell(source) else { return Ok(None) };
        let lane = if self.control().features & FEATURE_LANES == 0 { 0 } else { policy.lane() };
        if lane == 0 {
            return Ok(Some(Levels { packets: cell.packets, second: cell.second }));
        }
        self.level_of_lane(levels::index(lane, source.hash(&self.control().seed))).map(Some)
    }
}

impl Debts {
    /// Returns the debts of both stages. A bucket that is created next takes over what the level shows above its share.
    fn of_stages(self, meter: &Meter) -> Option<(Units, Units)> {
        let level = self.level?;
        Some((level, self.own.unwrap_or_else(|| stages::handed(level, 0, meter))))
    }

    fn used(self, policy: &Policy) -> Option<Used> {
        let meter = &policy.packets;
        let owed = match self.of_stages(meter) {
            Some((level, own)) => stages::owed(level, own, meter),
            None => self.own?,
        };
        let is_known = self.own.is_some() || owed != 0;
        let packets = |debt: Units| debt.div_ceil(meter.cost_of(1).max(1));
        let burst = if policy.given.burst == 0 { packets(meter.burst) } else { policy.given.burst };
        let used = Used { packets: packets(owed), burst, full_in: duration(owed) };
        (meter.is_on() && is_known).then_some(used)
    }

    fn wait(self, amount: u32, meter: &Meter) -> Units {
        if !meter.is_on() {
            return 0;
        }
        let cost = meter.cost_of(amount);
        match (self.of_stages(meter), self.own) {
            (Some((level, own)), _) => stages::wait(level, own, cost, meter),
            (None, Some(own)) => own.min((own + cost).saturating_sub(meter.burst)),
            (None, None) => 0,
        }
    }
}

fn of_windows(bucket: &Bucket, policy: &Policy, now: u64) -> Standing {
    let admits = |window: &Window, state: u64, now: u64, amount: u64| {
        if policy.algorithm == Algorithm::FixedWindow as u8 {
            window.ask_fixed(state, now, amount).is_some()
        } else {
            window.ask_sliding(state, now, amount).is_some()
        }
    };
    let time_until = |window: &Window, state: u64, amount: u64| {
        // The counts of two windows at most weigh something.
        let waits = |wait: u64| !admits(window, state, now.saturating_add(wait), amount);
        Duration::from_nanos(least(2 * window.length, waits))
    };
    let [packets, second] = &policy.windows;
    let also = u64::from(policy.second_amount(SMALLEST_FRAME, 1));
    let wait = |window: &Window, state: u64, amount: u64| {
        if window.is_on() { time_until(window, state, amount) } else { Duration::ZERO }
    };
    let used = packets.is_on().then(|| {
        let state = bucket.packets;
        let is_used = |used: u64| !admits(packets, state, now, packets.limit - used);
        Used {
            packets: least(packets.limit, is_used),
            burst: packets.limit,
            full_in: time_until(packets, state, packets.limit),
        }
    });
    Standing { used, wait: wait(packets, bucket.packets, 1).max(wait(second, bucket.second, also)) }
}

fn of_log(log: &Log, policy: &Policy, now: u64) -> Standing {
    let left = |number: Option<u64>, window: &Window| {
        let decisive = number.map(|number| (number, Place(log.places[place(number) as usize])));
        let age = decisive.filter(|(number, place)| place.is_of(*number)).map(|(_, place)| place.age(now));
        Duration::from_nanos(age.map_or(0, |age| window.length.saturating_sub(age)))
    };
    let is_on = |window: &&Window| window.is_on();
    let wait =
        policy.windows.iter().filter(is_on).map(|window| left(decisive(log.admitted, window.limit), window)).max();
    let [packets, _] = &policy.windows;
    let counts = |back: &u64| left(log.admitted.checked_sub(*back), packets) != Duration::ZERO;
    let used = packets.is_on().then(|| Used {
        packets: (1..=packets.limit).take_while(counts).count() as u64,
        burst: packets.limit,
        full_in: left(log.admitted.checked_sub(1), packets),
    });
    Standing { used, wait: wait.unwrap_or_default() }
}

/// Returns the least number up to `most` for which this no longer holds.
fn least(most: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut from, mut to) = (0, most);
    while from < to {
        let middle = from + (to - from) / 2;
        if holds(middle) { from = middle + 1 } else { to = middle }
    }
    from
}

fn duration(time: Units) -> Duration {
    Duration::from_nanos(time >> gcra::FRACTION_BITS)
}
