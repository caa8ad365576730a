//! The simulated engine: one record, which can be lost.

use ratelimit_common::fleet::share::{Answer, Limit, Record, Report, Terms};

/// The engine of one source.
#[derive(Debug, Default)]
pub(super) struct Engine {
    record: Option<Record>,
    records: u64,
}

impl Engine {
    /// Takes a report.
    pub(super) fn take(&mut self, report: &Report, limit: &Limit, terms: &Terms, now: f64) -> Answer {
        let record = self.record.get_or_insert_with(|| {
            self.records += 1;
            Record::new(self.records, limit, terms, now)
        });
        record.take(report, limit, terms, now)
    }

    /// Loses everything.
    pub(super) fn forget(&mut self) {
        self.record = None;
    }
}
