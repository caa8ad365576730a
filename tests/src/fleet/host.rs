//! A simulated host: its bucket, and what it reports.

use ratelimit_common::fleet::{
    demand::Demand,
    share::{Answer, Limit, Report, Terms},
};

/// A host that receives packets of the source.
#[derive(Debug, Clone)]
pub(super) struct Host {
    weight: f64,
    /// Packets that the bucket owes.
    debt: f64,
    /// Part of a packet that has not arrived.
    rest: f64,
    demand: Demand,
    offered: f64,
    admitted: f64,
    lease: Lease,
    record: u64,
    next_report: f64,
    /// When the source may be reported before that again.
    next_urgent: f64,
    /// A number from 0 to 1, another one for each report.
    jitter: f64,
    is_refusing: bool,
}

/// A share of the limit, which a meter of its own holds.
#[derive(Debug, Clone, Copy, Default)]
struct Lease {
    share: f64,
    /// In seconds.
    end: f64,
    /// Packets that its meter owes, each as a part of the whole limit.
    debt: f64,
}

/// What a host did with the packets of one step.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Done {
    pub(super) offered: f64,
    pub(super) admitted: f64,
}

impl Host {
    /// Creates a host that reports first after `phase` periods.
    pub(super) fn new(weight: f64, phase: f64, terms: &Terms) -> Self {
        Self {
            weight,
            debt: 0.0,
            rest: 0.0,
            demand: Demand::default(),
            offered: 0.0,
            admitted: 0.0,
            lease: Lease::default(),
            record: 0,
            next_report: phase * terms.period,
            next_urgent: 0.0,
            jitter: phase,
            is_refusing: false,
        }
    }

    /// Takes the answer of the engine. A new meter owes everything if the source is at its limit, and otherwise nothing.
    pub(super) fn take(&mut self, answer: &Answer, limit: &Limit, terms: &Terms, now: f64) {
        self.record = answer.record;
        if let Some(share) = answer.share {
            let first = if self.is_refusing { limit.burst } else { 0.0 };
            let debt = if now < self.lease.end { self.lease.debt } else { first };
            self.lease = Lease { share, end: now + terms.lease(), debt };
        }
    }

    /// Receives packets, at `rate` per second for `step` seconds.
    pub(super) fn receive(&mut self, rate: f64, limit: &Limit, now: f64, step: f64) -> Done {
        let arrived = self.rest + rate * step;
        let offered = arrived.floor();
        self.rest = arrived - offered;
        self.debt = (self.debt - limit.rate * step).max(0.0);
        let mut admitted = offered.min(room(self.debt, 1.0, limit));
        if now < self.lease.end {
            let cost = 1.0 / self.lease.share;
            self.lease.debt = (self.lease.debt - limit.rate * step).max(0.0);
            admitted = admitted.min(room(self.lease.debt, cost, limit));
            self.lease.debt += admitted * cost;
        }
        self.debt += admitted;
        self.offered += offered;
        self.admitted += admitted;
        self.is_refusing = admitted < offered;
        Done { offered, admitted }
    }

    /// Returns a report if one is due, or at once if the source begins to be refused without a share.
    pub(super) fn report(&mut self, terms: &Terms, now: f64) -> Option<Report> {
        let is_urgent = self.is_refusing && now >= self.lease.end.max(self.next_urgent) && self.offered > 0.0;
        if now < self.next_report && !is_urgent {
            return None;
        }
        if is_urgent {
            self.next_urgent = now + terms.period / URGENT;
        }
        if now >= self.next_report {
            // Reports of all hosts spread over the period, and meet in another order each time.
            self.jitter = (self.jitter + GOLDEN_RATIO).fract();
            self.next_report += terms.period * (0.9 + 0.2 * self.jitter);
        }
        let offered = std::mem::take(&mut self.offered);
        let admitted = std::mem::take(&mut self.admitted);
        self.demand = self.demand.after(offered, now, terms.memory());
        (offered > 0.0).then_some(Report {
            offered,
            admitted,
            own: self.demand.packets,
            weight: self.weight,
            record: self.record,
        })
    }
}

/// Urgent reports of a host in one period, at most.
const URGENT: f64 = 10.0;

/// Multiples of it, without their integer parts, spread evenly from 0 to 1.
pub(super) const GOLDEN_RATIO: f64 = 0.618_033_988_749_894_9;

/// Returns how many packets of this cost a meter admits. One that costs more than the burst passes if nothing is owed.
fn room(debt: f64, cost: f64, limit: &Limit) -> f64 {
    let fitting = ((limit.burst - debt) / cost + 1e-9).floor().max(0.0);
    if debt == 0.0 { fitting.max(1.0) } else { fitting }
}
