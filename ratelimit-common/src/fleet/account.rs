//! What a host tells the engine about one limit of one source, and the share that it gets.

use crate::fleet::{
    demand::Demand,
    share::{Answer, Limit, Report, Terms},
};

/// Periods after which a source is reported, although it was offered little.
const RARELY: u32 = 5;
/// Part of the highest level from which on a source is reported in each period.
const MUCH: f64 = 0.1;

/// What a host tells the engine about one limit of one source, and the share that it gets.
#[derive(Debug, Clone, Default)]
pub struct Account {
    /// Offered and admitted since the last report.
    offered: f64,
    admitted: f64,
    demand: Demand,
    record: u64,
    share: Option<f64>,
    /// Periods since the last report.
    periods: u32,
    /// Whether a report waits for its answer.
    is_under_way: bool,
    /// Whether the last report has no answer.
    is_unanswered: bool,
}

impl Account {
    /// Adds what the source was offered, and what of it was admitted.
    pub fn add(&mut self, offered: f64, admitted: f64) {
        self.offered += offered;
        self.admitted += admitted;
    }

    /// Returns the report that is due in this period, which ends at `now`, in seconds. An urgent one is due as soon as
    /// there is anything to report.
    pub fn report(&mut self, limit: &Limit, terms: &Terms, weight: f64, is_urgent: bool, now: f64) -> Option<Report> {
        if !is_urgent {
            self.periods += 1;
        }
        let much = MUCH * terms.highest_level(limit);
        let is_due = is_urgent || self.share.is_some() || self.offered >= much || self.periods >= RARELY;
        if self.is_under_way || !is_due || self.offered <= 0.0 {
            return None;
        }
        let (offered, admitted) = self.advance(terms, now);
        // A server that was silent may read all reports later. What was admitted meanwhile is no debt.
        let admitted = if self.is_unanswered { 0.0 } else { admitted };
        self.is_under_way = true;
        Some(Report { offered, admitted, own: self.demand.packets, weight, record: self.record })
    }

    /// Counts a period in which nothing can be reported. What was admitted is not reported later: without an engine, the
    /// local limit stands.
    pub fn skip(&mut self, terms: &Terms, now: f64) {
        if self.offered > 0.0 {
            self.advance(terms, now);
        }
    }

    fn advance(&mut self, terms: &Terms, now: f64) -> (f64, f64) {
        self.periods = 0;
        self.demand = self.demand.after(self.offered, now, terms.memory());
        // What was taken back after a report lowers the next one.
        let admitted = self.admitted.max(0.0);
        self.admitted -= admitted;
        (std::mem::take(&mut self.offered), admitted)
    }

    /// Takes the answer to a report.
    pub fn take(&mut self, answer: &Answer) {
        (self.is_under_way, self.is_unanswered) = (false, false);
        (self.record, self.share) = (answer.record, answer.share);
    }

    /// Notes that a report has no answer.
    pub fn fail(&mut self) {
        (self.is_under_way, self.is_unanswered) = (false, true);
    }

    /// Returns whether a report waits for its answer.
    #[must_use]
    pub fn is_under_way(&self) -> bool {
        self.is_under_way
    }

    /// Returns whether the engine has answered for it.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.record != 0
    }

    /// Returns what the source was offered since the last report.
    #[must_use]
    pub fn waiting(&self) -> f64 {
        self.offered
    }

    /// Returns the part of the limit that the source gets, if it has a share.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        self.share
    }

    /// Gives it another share, without an answer.
    pub fn set_share(&mut self, share: Option<f64>) {
        self.share = share;
    }

    /// Begins a record of another limit.
    pub fn change_limit(&mut self) {
        (self.record, self.share) = (0, None);
    }

    /// Returns what the source is offered, per second.
    #[must_use]
    pub fn offered_per_second(&self, terms: &Terms, now: f64) -> f64 {
        self.demand.after(0.0, now, terms.memory()).packets / terms.memory()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_back_after_a_report_lowers_the_next_one() {
        let (limit, terms) = (Limit { rate: 10.0, burst: 10.0 }, Terms::default());
        let mut account = Account::default();
        account.add(5.0, 5.0);
        assert!(account.report(&limit, &terms, 1.0, true, 1.0).is_some_and(|report| report.admitted == 5.0));
        account.take(&Answer { share: None, record: 1 });
        account.add(-3.0, -3.0);
        assert_eq!(account.report(&limit, &terms, 1.0, true, 1.2), None);
        account.add(10.0, 0.0);
        assert!(account.report(&limit, &terms, 1.0, true, 1.4).is_some_and(|report| report.admitted == 0.0));
        account.take(&Answer { share: None, record: 1 });
        account.add(4.0, 4.0);
        assert!(account.report(&limit, &terms, 1.0, true, 1.6).is_some_and(|report| report.admitted == 1.0));
    }
}
