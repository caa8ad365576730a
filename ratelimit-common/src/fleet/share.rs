//! The shares of one source's limit.
//!
//! The engine keeps a [`Record`] of each source. Its level falls by each packet that a host has admitted, and rises at
//! the rate of the limit. While the fleet is offered more than the limit, each host gets the part of the limit that it
//! has of the demand. The level corrects the sum of the shares: above zero it raises them, below zero it lowers them.

use crate::fleet::demand::Demand;

/// A limit that hosts share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limit {
    /// Packets per second.
    pub rate: f64,
    /// Packets of the burst.
    pub burst: f64,
}

/// How a fleet shares its limits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Terms {
    /// Seconds from one report of a host to the next.
    pub period: f64,
    /// Least part of its share that a host keeps while the fleet has admitted too much, from 0 to 1.
    pub floor: f64,
    /// Least share of a host, so that it always measures what its source is offered.
    pub least: f64,
}

impl Default for Terms {
    fn default() -> Self {
        Self { period: 0.2, floor: 0.25, least: 1.0 / 1024.0 }
    }
}

/// Seconds of a limit's rate that a record may owe. So a single blow does not throttle a source for long.
const LONGEST_DEBT: f64 = 5.0;
/// Packets or requests that a record may owe at least. Otherwise, a slow limit would forget what was admitted too much.
const LEAST_DEBT: f64 = 2.0;
/// Part of the rate below which the demand no longer needs shares. They begin at 1.
const RELEASE: f64 = 0.9;
/// Part of the highest level below which shares are needed, whatever the demand is.
const LOW: f64 = 0.25;

/// Seconds in which shares pay most of what a record owes. With less, they swing. With more, the fleet is below its
/// limit for long after a first blow.
const PAID: f64 = 1.0;

/// Periods in which the weight of an offered packet falls to 1/e.
const MEMORY: f64 = 3.0;
/// Mean demand of a host between two reports, as a part of that at a report: (1 − e^(−1/3)) × 3.
const MEAN: f64 = 0.850_406_068_278_632_6;

impl Terms {
    /// Returns the time in which the weight of an offered packet falls to 1/e, in seconds.
    #[must_use]
    pub fn memory(&self) -> f64 {
        MEMORY * self.period
    }

    /// Returns the time for which a share holds, in seconds.
    #[must_use]
    pub fn lease(&self) -> f64 {
        4.0 * self.period
    }

    /// Returns the highest level. A host that is busy alone reports its packets a period late, so without the second
    /// part it would lose what it had no time to use.
    #[must_use]
    pub fn highest_level(&self, limit: &Limit) -> f64 {
        limit.burst + limit.rate * self.period
    }
}

/// What a host reports of one source.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Report {
    /// Packets offered since the last report.
    pub offered: f64,
    /// Packets admitted since the last report.
    pub admitted: f64,
    /// The host's own demand, with this report.
    pub own: f64,
    /// The weight of the host: how much its demand counts beside that of others. Above 0.
    pub weight: f64,
    /// The record that answered the last report; 0 if none did.
    pub record: u64,
}

/// The answer to a report.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Answer {
    /// The share of the limit that the host gets, or `None` if it needs none.
    pub share: Option<f64>,
    /// The record that answers.
    pub record: u64,
}

/// What the engine knows of one source.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Record {
    /// Its number. An engine that loses its records creates others, with other numbers.
    pub number: u64,
    /// Packets that the fleet may still admit. Below zero, it has admitted too many.
    pub level: f64,
    /// Demand of all hosts.
    pub demand: Demand,
    /// The same, each host's multiplied by its weight.
    pub weighted: Demand,
    /// Whether hosts need shares.
    pub is_contended: bool,
}

impl Record {
    /// Returns the record of a source that was not seen before. Its number is not 0.
    #[must_use]
    pub fn new(number: u64, limit: &Limit, terms: &Terms, now: f64) -> Self {
        let nothing = Demand { packets: 0.0, time: now };
        let level = terms.highest_level(limit);
        Self { number, level, demand: nothing, weighted: nothing, is_contended: false }
    }

    /// Takes the report of a host.
    ///
    /// A host that has not yet told this record anything adds its whole demand. So the shares are right at once after the
    /// engine has lost its records.
    pub fn take(&mut self, report: &Report, limit: &Limit, terms: &Terms, now: f64) -> Answer {
        let highest = terms.highest_level(limit);
        let passed = (now - self.demand.time).max(0.0);
        let level = (self.level + limit.rate * passed).min(highest) - report.admitted;
        self.level = level.max(-most_owed(limit));
        let is_known = report.record == self.number;
        let offered = if is_known { report.offered } else { report.own };
        self.weighted = self.weighted.after(report.weight * offered, now, terms.memory());
        self.demand = self.demand.after(offered, now, terms.memory());
        let rate = self.demand.packets / terms.memory();
        let is_low = self.level < LOW * highest;
        let is_calm = rate < RELEASE * limit.rate;
        self.is_contended = is_low || rate > limit.rate || self.is_contended && !is_calm;
        let share = self.is_contended.then(|| {
            // The reporting host's demand is at its highest now. Those of the others are at their means, so its own is
            // taken at its mean too.
            let now = report.weight * report.own;
            let own = now * MEAN;
            let all = self.weighted.packets - now + own;
            let part = if all > 0.0 { (own / all).clamp(0.0, 1.0) } else { 1.0 };
            // The level in the middle of this report. The level after it is lower for a host that reports much, which would
            // get less than its part.
            let level = self.level + report.admitted / 2.0;
            (part * gain(level, limit, terms)).clamp(terms.least, 1.0)
        });
        Answer { share, record: self.number }
    }
}

/// Returns the most that a record of this limit may owe.
fn most_owed(limit: &Limit) -> f64 {
    (LONGEST_DEBT * limit.rate).max(LEAST_DEBT)
}

/// Returns the factor of all shares at this level.
fn gain(level: f64, limit: &Limit, terms: &Terms) -> f64 {
    if level > 0.0 {
        1.0 + 2.0 * level / terms.highest_level(limit)
    } else {
        (1.0 + level / (PAID * limit.rate)).max(terms.floor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn amount() -> impl Strategy<Value = f64> {
        prop_oneof![Just(0.0), 0.0..1e3, 0.0..1e12]
    }

    proptest! {
        #[test]
        fn whatever_hosts_report_levels_and_shares_stay_within_their_bounds(
            rate in 1e-5..1e8, burst in 1.0..1e8, weight in 0.01..100.0,
            reports in prop::collection::vec((amount(), amount(), amount(), 0u64..3, -1.0..10.0), 1..50),
        ) {
            let (limit, terms) = (Limit { rate, burst }, Terms::default());
            let mut record = Record::new(1, &limit, &terms, 0.0);
            let mut now = 0.0;
            for (offered, admitted, own, number, passed) in reports {
                now += passed;
                let report = Report { offered, admitted, own, weight, record: number };
                let answer = record.take(&report, &limit, &terms, now);
                prop_assert!(record.level <= terms.highest_level(&limit) && record.level >= -most_owed(&limit));
                prop_assert!(record.demand.packets.is_finite() && record.demand.packets >= 0.0);
                prop_assert!(answer.share.is_none_or(|share| (terms.least..=1.0).contains(&share)));
                prop_assert_eq!(answer.share.is_some(), record.is_contended);
            }
        }

        #[test]
        fn a_host_that_is_alone_and_has_admitted_no_more_than_the_limit_gets_all_of_it(
            rate in 1.0..1e6f64, burst in 1.0..1e4f64, offered in 1.0..20.0f64, reports in 1u64..50,
        ) {
            let (limit, terms) = (Limit { rate, burst }, Terms::default());
            let mut record = Record::new(1, &limit, &terms, 0.0);
            let mut own = Demand::default();
            for number in 1..=reports {
                let (now, packets) = (number as f64 * terms.period, rate * terms.period);
                own = own.after(offered * packets, now, terms.memory());
                let admitted = packets * offered.min(1.0);
                let report = Report { offered: offered * packets, admitted, own: own.packets, weight: 1.0, record: 1 };
                let answer = record.take(&report, &limit, &terms, now);
                prop_assert!(answer.share.is_none_or(|share| share > 1.0 - 1e-9), "{:?}", answer);
            }
        }
    }

    #[test]
    fn a_host_tells_a_new_record_its_whole_demand() {
        let (limit, terms) = (Limit { rate: 1_000.0, burst: 100.0 }, Terms::default());
        let mut record = Record::new(7, &limit, &terms, 0.0);
        let report = Report { offered: 1.0, admitted: 0.0, own: 6_000.0, weight: 1.0, record: 3 };
        assert_eq!(record.take(&report, &limit, &terms, 0.0), Answer { share: Some(1.0), record: 7 });
        // Two hosts with the same demand, and a level of 0: each gets half, as far as the demand of the other one is known.
        record.level = 0.0;
        let share = record.take(&report, &limit, &terms, 0.0).share.unwrap_or_default();
        assert!((share - MEAN / (1.0 + MEAN)).abs() < 1e-9, "{share}");
    }

    #[test]
    fn a_weight_changes_parts_and_not_whether_there_is_enough_for_all() {
        let (limit, terms) = (Limit { rate: 1_000.0, burst: 1_000.0 }, Terms::default());
        let mut record = Record::new(1, &limit, &terms, 0.0);
        let mut share = |offered: f64, weight: f64| {
            let report = Report { offered, admitted: 0.0, own: offered, weight, record: 1 };
            record.take(&report, &limit, &terms, 0.0).share
        };
        // 600 packets of demand are the rate, times the memory.
        assert_eq!((share(100.0, 1.0), share(450.0, 10.0)), (None, None));
        assert!(share(100.0, 1.0).is_some());
    }

    #[test]
    fn what_is_offered_below_the_limit_needs_no_share_and_what_is_above_it_does_until_it_is_calm() {
        let (limit, terms) = (Limit { rate: 1_000.0, burst: 1_000.0 }, Terms::default());
        let mut record = Record::new(1, &limit, &terms, 0.0);
        let mut needs = |offered: f64, now: f64| {
            let report = Report { offered, admitted: 0.0, own: offered, weight: 1.0, record: 1 };
            record.take(&report, &limit, &terms, now).share.is_some()
        };
        // 600 packets of demand are the rate, times the memory.
        assert!(!needs(550.0, 0.0));
        assert!(needs(60.0, 0.0));
        // Between 0.9 and 1 of the rate, it depends on what was before.
        assert!(needs(0.0, 0.03));
        assert!(!needs(0.0, 0.2));
        assert!(!needs(140.0, 0.2));
    }
}
