//! A source that this host reports: what it was offered and admitted, and its share.

use ratelimit_common::{
    fleet::{
        demand::Demand,
        lease::Lease,
        share::{Answer, Report, Terms},
    },
    identity::source::Source,
    limits::limit::SECOND,
    meters::gcra::units,
};

use super::measure::Measure;
use crate::dataplane::leases::Grant;

/// Periods after which a source is reported, although it was admitted little.
const RARELY: u32 = 5;
/// Part of the highest level from which on a source is reported in each period.
const MUCH: f64 = 0.05;
/// Time without a packet after which a source is no longer watched, in nanoseconds.
const IDLE: u64 = 10 * SECOND;

/// The share of a source whose last share has ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Next {
    /// It gets the whole limit.
    Whole,
    /// It gets this part.
    Part(f64),
    /// It keeps the last share.
    Same,
}

/// A source that this host reports.
#[derive(Debug, Clone)]
pub(super) struct Watched {
    /// The source.
    pub(super) source: Source,
    /// How its limit counts.
    pub(super) measure: Measure,
    hash: u64,
    /// Its place at the last reading.
    read: Lease,
    /// Offered and admitted since the last report.
    offered: f64,
    admitted: f64,
    demand: Demand,
    record: u64,
    share: Option<f64>,
    /// When its lease ends, in nanoseconds.
    end: u64,
    is_refused: bool,
    last_packet: u64,
    /// Periods since the last report.
    periods: u32,
    /// Whether a report waits for its answer.
    is_under_way: bool,
}

impl Watched {
    /// Watches a source from now on, in nanoseconds. A source that a limit refuses has spent its burst.
    pub(super) fn new(source: Source, hash: u64, measure: Measure, is_refused: bool, now: u64) -> Self {
        let spent = if is_refused { measure.limit.burst } else { 0.0 };
        Self {
            source,
            measure,
            hash,
            read: Lease::default(),
            offered: spent,
            admitted: spent,
            demand: Demand::default(),
            record: 0,
            share: None,
            end: 0,
            is_refused,
            last_packet: now,
            periods: 0,
            is_under_way: false,
        }
    }

    /// Takes what its place has counted. Without one, nothing is counted.
    pub(super) fn read(&mut self, place: Option<Lease>, now: u64) {
        let Some(place) = place else { return };
        let [admitted, refused] = self.measure.between(&self.read, &place);
        self.read = place;
        self.is_refused = refused > 0.0;
        if admitted + refused > 0.0 {
            self.last_packet = now;
        }
        self.admitted += admitted;
        self.offered += admitted + refused;
    }

    /// Returns the report that is due in this period. An urgent one is due as soon as there is anything to report.
    pub(super) fn report(&mut self, terms: &Terms, weight: f64, is_urgent: bool, now: u64) -> Option<Report> {
        if !is_urgent {
            self.periods += 1;
        }
        let much = MUCH * terms.highest_level(&self.measure.limit);
        let is_due = is_urgent || self.share.is_some() || self.offered >= much || self.periods >= RARELY;
        if self.is_under_way || !is_due || self.offered <= 0.0 {
            return None;
        }
        let (offered, admitted) = self.advance(terms, now);
        self.is_under_way = true;
        Some(Report { offered, admitted, own: self.demand.packets, weight, record: self.record })
    }

    /// Counts a period in which nothing can be reported. What was admitted is not reported later: without an engine, the
    /// local limit stands.
    pub(super) fn skip(&mut self, terms: &Terms, now: u64) {
        if self.offered > 0.0 {
            self.advance(terms, now);
        }
    }

    fn advance(&mut self, terms: &Terms, now: u64) -> (f64, f64) {
        self.periods = 0;
        self.demand = self.demand.after(self.offered, seconds(now), terms.memory());
        (std::mem::take(&mut self.offered), std::mem::take(&mut self.admitted))
    }

    /// Takes the answer to a report, and returns the lease to grant. Without a share, the source has the whole limit, and is
    /// counted.
    pub(super) fn take(&mut self, answer: &Answer, terms: &Terms, now: u64) -> Grant {
        self.is_under_way = false;
        (self.record, self.share) = (answer.record, answer.share);
        self.grant(terms, now)
    }

    /// Notes that a report has no answer.
    pub(super) fn fail(&mut self) {
        self.is_under_way = false;
    }

    /// Returns the lease to grant although there is no answer, if one is due. `next` tells the share of a source whose
    /// last share has ended. None is the whole limit.
    pub(super) fn renew(&mut self, next: Next, terms: &Terms, now: u64) -> Option<Grant> {
        if now >= self.end {
            self.share = match next {
                Next::Whole => None,
                Next::Part(part) => Some(part),
                Next::Same => self.share,
            };
        } else if self.share.is_some() || self.end > now + nanoseconds(terms.lease()) / 2 {
            return None;
        }
        Some(self.grant(terms, now))
    }

    fn grant(&mut self, terms: &Terms, now: u64) -> Grant {
        if now >= self.end {
            // The place begins anew.
            self.read = Lease::default();
        }
        self.end = now + nanoseconds(terms.lease());
        let debts = if self.is_refused { self.measure.bursts } else { [0; 2] };
        let states = debts.map(|debt| units(now).wrapping_add(debt));
        Grant { hash: self.hash, share: self.share.unwrap_or(1.0), end: self.end, states }
    }

    /// Returns whether it has sent nothing for so long that it need not be watched.
    pub(super) fn is_idle(&self, now: u64) -> bool {
        !self.is_under_way && now.saturating_sub(self.last_packet) >= IDLE
    }

    /// Returns what it is offered, as a part of the limit.
    pub(super) fn load(&self, terms: &Terms, now: u64) -> f64 {
        self.offered_per_second(terms, now) / self.measure.limit.rate
    }

    /// Returns what it is offered, per second.
    pub(super) fn offered_per_second(&self, terms: &Terms, now: u64) -> f64 {
        self.demand.after(0.0, seconds(now), terms.memory()).packets / terms.memory()
    }

    /// Returns the part of the limit that it gets, if it has a share.
    pub(super) fn share(&self) -> Option<f64> {
        self.share
    }

    /// Takes another limit. Its record is another one too.
    pub(super) fn change(&mut self, measure: Measure) {
        if self.measure != measure {
            (self.measure, self.record, self.share) = (measure, 0, None);
        }
    }
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / SECOND as f64
}

fn nanoseconds(seconds: f64) -> u64 {
    (seconds * SECOND as f64) as u64
}

#[cfg(test)]
mod tests {
    use ratelimit_common::{
        fleet::lease::WHOLE,
        limits::limit::{Limit, Rate},
    };

    use super::*;

    const START: u64 = 1_000 * SECOND;
    const PERIOD: u64 = SECOND / 5;
    const BURST: f64 = 100.0;

    /// Returns a source with 1,000 packets per second, and the cost of one packet.
    fn watched(is_refused: bool) -> (Watched, u64) {
        let limit =
            Limit { packets: Some(Rate { amount: 1_000, period: SECOND }), burst: Some(100), ..Limit::default() };
        let policy = limit.policy().unwrap();
        let measure = Measure::of(&policy, "192.0.2.1").unwrap();
        let watched = Watched::new(Source::v4([192, 0, 2, 1]), 7, measure, is_refused, START);
        (watched, policy.packets.cost_of(1))
    }

    fn report(watched: &mut Watched, now: u64) -> Option<Report> {
        watched.report(&Terms::default(), 1.0, false, now)
    }

    #[test]
    fn a_refused_source_tells_that_it_has_spent_its_burst_and_begins_its_lease_with_that_debt() {
        let (mut watched, cost) = watched(true);
        let first = watched.report(&Terms::default(), 1.0, true, START).unwrap();
        assert_eq!((first.offered, first.admitted, first.own, first.record), (BURST, BURST, BURST, 0));
        let grant = watched.take(&Answer { share: Some(0.25), record: 5 }, &Terms::default(), START);
        assert_eq!((grant.share, grant.end), (0.25, START + 4 * PERIOD));
        assert_eq!(grant.states[0], units(START) + 100 * cost);
    }

    #[test]
    fn a_busy_source_is_reported_in_each_period_and_a_calm_one_in_each_fifth() {
        for (packets, expected) in
            [(50, [true; 10]), (2, [false, false, false, false, true, false, false, false, false, true])]
        {
            let (mut watched, cost) = watched(false);
            watched.renew(Next::Whole, &Terms::default(), START);
            let reported = std::array::from_fn(|period| {
                let now = START + (period as u64 + 1) * PERIOD;
                let place =
                    Lease { admitted: packets * (period as u64 + 1) * cost, multiplier: WHOLE, ..Lease::default() };
                watched.read(Some(place), now);
                watched.renew(Next::Whole, &Terms::default(), now);
                let is_reported = report(&mut watched, now).is_some();
                if is_reported {
                    watched.take(&Answer { share: None, record: 5 }, &Terms::default(), now);
                }
                is_reported
            });
            assert_eq!(reported, expected, "{packets}");
        }
    }

    #[test]
    fn nothing_is_reported_twice_or_while_an_answer_is_missing() {
        let (mut watched, cost) = watched(false);
        watched.read(Some(Lease { admitted: 80 * cost, ..Lease::default() }), START);
        assert_eq!(report(&mut watched, START).map(|report| report.admitted), Some(80.0));
        watched.read(Some(Lease { admitted: 90 * cost, ..Lease::default() }), START);
        assert_eq!(watched.report(&Terms::default(), 1.0, true, START), None);
        watched.fail();
        assert_eq!(watched.report(&Terms::default(), 1.0, true, START).map(|report| report.admitted), Some(10.0));
    }

    #[test]
    fn what_was_admitted_without_an_engine_is_not_reported_later() {
        let (mut watched, cost) = watched(false);
        watched.read(Some(Lease { admitted: 500 * cost, ..Lease::default() }), START);
        watched.skip(&Terms::default(), START);
        watched.read(Some(Lease { admitted: 580 * cost, refused: 20, ..Lease::default() }), START);
        let report = report(&mut watched, START).unwrap();
        assert_eq!((report.offered, report.admitted, report.own), (100.0, 80.0, 600.0));
    }

    #[test]
    fn a_share_holds_for_four_periods_and_the_place_is_counted_afterwards() {
        let (terms, (mut watched, _)) = (Terms::default(), watched(false));
        let first = watched.renew(Next::Whole, &terms, START).unwrap();
        assert_eq!((first.share, first.end), (1.0, START + 4 * PERIOD));
        assert_eq!(watched.renew(Next::Whole, &terms, START + PERIOD).map(|grant| grant.end), None);
        let renewed = watched.renew(Next::Whole, &terms, START + 2 * PERIOD).unwrap();
        assert_eq!(renewed.end, START + 6 * PERIOD);
        let answer = Answer { share: Some(0.5), record: 5 };
        assert_eq!(watched.take(&answer, &terms, START + 3 * PERIOD).end, START + 7 * PERIOD);
        assert_eq!(watched.renew(Next::Whole, &terms, START + 6 * PERIOD).map(|grant| grant.end), None);
        let ended = START + 7 * PERIOD;
        for (next, share) in [(Next::Part(0.25), 0.25), (Next::Same, 0.5), (Next::Whole, 1.0)] {
            assert_eq!(watched.clone().renew(next, &terms, ended).map(|grant| grant.share), Some(share));
        }
    }

    #[test]
    fn a_source_without_packets_is_given_up_and_its_place_counts_from_0_again() {
        let (terms, (mut watched, cost)) = (Terms::default(), watched(false));
        watched.renew(Next::Whole, &terms, START);
        watched.read(Some(Lease { admitted: 80 * cost, ..Lease::default() }), START + SECOND);
        assert!(!watched.is_idle(START + 10 * SECOND));
        assert!(watched.is_idle(START + 11 * SECOND));
        watched.renew(Next::Whole, &terms, START + 11 * SECOND);
        watched.read(Some(Lease { admitted: 90 * cost, ..Lease::default() }), START + 11 * SECOND);
        assert_eq!(report(&mut watched, START + 11 * SECOND).map(|report| report.admitted), Some(170.0));
    }
}
