//! A source that this host reports: what it was offered and admitted, and its share.

use ratelimit_common::{
    fleet::{
        account::Account,
        lease::Lease,
        share::{Answer, Report, Terms},
    },
    identity::source::Source,
    limits::limit::SECOND,
    meters::gcra::units,
};
use ratelimit_dataplane::leases::Grant;

use super::{
    measure::{Counts, Measure},
    traffic::Rule,
};

/// Time without a packet after which a source is no longer watched, in nanoseconds.
const IDLE: u64 = 10 * SECOND;

/// The share of a source without an answer of the engine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Next {
    /// It gets the whole limit when its last share ends.
    Whole,
    /// It gets this part from now on.
    Part(f64),
    /// It keeps its last share.
    Same,
}

/// A source that this host reports.
#[derive(Debug, Clone)]
pub(super) struct Watched {
    /// The source.
    pub(super) source: Source,
    /// Its limit.
    pub(super) rule: Rule,
    /// How that counts.
    pub(super) measure: Measure,
    hash: u64,
    /// What its place had counted at the last reading.
    read: Counts,
    account: Account,
    /// When its lease ends, in nanoseconds.
    end: u64,
    is_refused: bool,
    last_packet: u64,
}

impl Watched {
    /// Watches a source from now on, in nanoseconds. A source that a limit refuses has `spent` so much.
    pub(super) fn new(
        source: Source,
        hash: u64,
        (rule, measure): (Rule, Measure),
        spent: Option<f64>,
        now: u64,
    ) -> Self {
        let (is_refused, mut account) = (spent.is_some(), Account::default());
        let spent = spent.unwrap_or(0.0);
        account.add(spent, spent);
        Self { source, rule, measure, hash, read: Counts::default(), account, end: 0, is_refused, last_packet: now }
    }

    /// Takes what its place has counted. Without one, nothing is counted.
    pub(super) fn read(&mut self, place: Option<Lease>, now: u64) {
        let Some(mut counts) = place.map(Counts::from) else { return };
        let [admitted, refused] = self.measure.between(self.read, counts);
        if admitted <= 0.0 {
            // What was counted and taken back is not counted again.
            counts.admitted = self.read.admitted;
        }
        self.read = counts;
        self.is_refused = refused > 0.0;
        if admitted + refused > 0.0 {
            self.last_packet = now;
        }
        self.account.add(admitted + refused, admitted);
    }

    /// Returns the report that is due in this period. An urgent one is due as soon as there is anything to report.
    pub(super) fn report(&mut self, terms: &Terms, weight: f64, is_urgent: bool, now: u64) -> Option<Report> {
        self.account.report(&self.measure.limit, terms, weight, is_urgent, seconds(now))
    }

    /// Counts a period in which nothing can be reported. What was admitted is not reported later: without an engine, the
    /// local limit stands.
    pub(super) fn skip(&mut self, terms: &Terms, now: u64) {
        self.account.skip(terms, seconds(now));
    }

    /// Takes the answer to a report, and returns the lease to grant. Without a share, the source has the whole limit, and is
    /// counted.
    pub(super) fn take(&mut self, answer: &Answer, terms: &Terms, now: u64) -> Grant {
        self.account.take(answer);
        self.grant(terms, now)
    }

    /// Notes that a report has no answer.
    pub(super) fn fail(&mut self) {
        self.account.fail();
    }

    /// Returns the lease to grant although there is no answer, if one is due.
    pub(super) fn renew(&mut self, next: Next, terms: &Terms, now: u64) -> Option<Grant> {
        let (has_ended, lasts) = (now >= self.end, self.end > now + nanoseconds(terms.lease()) / 2);
        match next {
            // A share from the engine holds to its end, and a place is renewed before that.
            Next::Whole if !has_ended && (self.share().is_some() || lasts) => return None,
            Next::Whole => self.account.set_share(None),
            // Without a gap, since the source's own bucket has room.
            Next::Part(part) if self.share() == Some(part) && lasts => return None,
            Next::Part(part) => self.account.set_share(Some(part)),
            Next::Same if lasts => return None,
            Next::Same => {}
        }
        Some(self.grant(terms, now))
    }

    fn grant(&mut self, terms: &Terms, now: u64) -> Grant {
        if now >= self.end {
            // The place begins anew.
            self.read = Counts::default();
        }
        self.end = now + nanoseconds(terms.lease());
        let debts = if self.is_refused { self.measure.bursts } else { [0; 2] };
        let states = debts.map(|debt| units(now).wrapping_add(debt));
        Grant { hash: self.hash, share: self.share().unwrap_or(1.0), end: self.end, states }
    }

    /// Returns whether it has sent nothing for so long that it need not be watched.
    pub(super) fn is_idle(&self, now: u64) -> bool {
        !self.account.is_under_way() && now.saturating_sub(self.last_packet) >= IDLE
    }

    /// Returns what it is offered, as a part of the limit.
    pub(super) fn load(&self, terms: &Terms, now: u64) -> f64 {
        self.offered_per_second(terms, now) / self.measure.limit.rate
    }

    /// Returns what it is offered, per second.
    pub(super) fn offered_per_second(&self, terms: &Terms, now: u64) -> f64 {
        self.account.offered_per_second(terms, seconds(now))
    }

    /// Returns the part of the limit that it gets, if it has a share.
    pub(super) fn share(&self) -> Option<f64> {
        self.account.share()
    }

    /// Takes another limit. Its record is another one too, if it counts in another way.
    pub(super) fn change(&mut self, rule: Rule, measure: Measure) {
        self.rule = rule;
        if self.measure != measure {
            self.measure = measure;
            self.account.change_limit();
        }
    }
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / SECOND as f64
}

/// Returns a time in nanoseconds.
pub(super) fn nanoseconds(seconds: f64) -> u64 {
    (seconds * SECOND as f64) as u64
}

#[cfg(test)]
mod tests;
