//! This host's copy of the records that it reports. It is fed with what each host counts.

use std::collections::HashMap;

use ratelimit_common::fleet::{
    demand::Demand,
    share::{Answer, Limit, Record, Report, Terms},
};

use super::{
    counts::{Entry, Grown},
    datagram::Told,
    message::Message,
    seal::{Name, Secret},
};
use crate::key::Key;

/// The most records. It is twice the number of sources that a host reports, since records stay for a while.
const MOST: usize = 20_000;
/// Half-lives of a demand after which a record means nothing.
const KEPT: f64 = 4.0;
/// No record is kept for longer than a week, in seconds.
const LONGEST: f64 = 604_800.0;

/// The records that this host reports.
#[derive(Debug)]
pub(super) struct Replica {
    records: HashMap<Name, Own>,
    names: HashMap<Key, Name>,
    /// Number of the last record.
    number: u64,
    /// Counts that have begun.
    births: u32,
}

/// A record, and what this host has counted of it.
#[derive(Debug, Clone, Copy)]
struct Own {
    record: Record,
    limit: Limit,
    birth: u32,
    offered: f64,
    admitted: f64,
    /// When this host has reported it last, in seconds.
    reported: f64,
}

impl Replica {
    /// Begins without records. Their numbers are higher than this one.
    pub(super) fn new(number: u64) -> Self {
        Self { records: HashMap::new(), names: HashMap::new(), number, births: 0 }
    }

    /// Returns how many counts have begun.
    pub(super) fn births(&self) -> u32 {
        self.births
    }

    /// Takes a report of this host. Returns the answer, and what to tell the others. `others` are the reports of other
    /// hosts about this record, with their weights. A record that does not fit has no answer.
    pub(super) fn report(
        &mut self,
        secret: &Secret,
        message: &Message,
        terms: &Terms,
        others: impl FnOnce(&Name) -> Vec<(f64, Entry)>,
        now: f64,
    ) -> Option<(Answer, Told)> {
        let Message { key, limit, report } = message;
        let name = self.names.get(key).copied().unwrap_or_else(|| secret.name(key));
        if !self.records.contains_key(&name) {
            if self.records.len() >= MOST {
                return None;
            }
            (self.number, self.births) = (self.number + 1, self.births.saturating_add(1));
            let record = begin(self.number, limit, terms, &others(&name), now);
            let own = Own { record, limit: *limit, birth: self.births, offered: 0.0, admitted: 0.0, reported: now };
            self.records.insert(name, own);
            self.names.insert(key.clone(), name);
        }
        let own = self.records.get_mut(&name)?;
        own.offered += report.offered;
        own.admitted += report.admitted;
        own.reported = now;
        let answer = own.record.take(report, limit, terms, now);
        let told = Told {
            name,
            birth: own.birth,
            offered: own.offered,
            admitted: own.admitted,
            own: report.own as f32,
            level: own.record.level as f32,
        };
        Some((answer, told))
    }

    /// Takes what another host has counted, if this host reports the record too.
    pub(super) fn hear(&mut self, told: &Told, grown: &Grown, weight: f64, terms: &Terms, now: f64) {
        let Some(Own { record, limit, .. }) = self.records.get_mut(&told.name) else { return };
        let Grown { offered, admitted, is_first } = *grown;
        let known = if is_first { 0 } else { record.number };
        let report = Report { offered, admitted, own: f64::from(told.own), weight, record: known };
        record.take(&report, limit, terms, now);
    }

    /// Forgets records that mean nothing any more.
    pub(super) fn forget(&mut self, terms: &Terms, now: f64) {
        self.records.retain(|_, own| {
            let full = (terms.highest_level(&own.limit) - own.record.level).max(0.0) / own.limit.rate;
            let kept = full + KEPT * std::f64::consts::LN_2 * terms.memory();
            now - own.reported < kept.clamp(1.0, LONGEST)
        });
        self.names.retain(|_, name| self.records.contains_key(name));
    }

    #[cfg(test)]
    pub(super) fn record(&self, secret: &Secret, key: &Key) -> Option<Record> {
        self.records.get(&secret.name(key)).map(|own| own.record)
    }
}

/// Returns the record of a source that this host reports for the first time. It has the demand that other hosts have
/// reported, and the lowest of their levels.
fn begin(number: u64, limit: &Limit, terms: &Terms, others: &[(f64, Entry)], now: f64) -> Record {
    let mut record = Record::new(number, limit, terms, now);
    for (weight, entry) in others {
        let own = Demand { packets: f64::from(entry.own), time: entry.at }.after(0.0, now, terms.memory()).packets;
        record.demand.packets += own;
        record.weighted.packets += weight * own;
        let level = f64::from(entry.level) + limit.rate * (now - entry.at).max(0.0);
        record.level = record.level.min(level);
    }
    record
}

#[cfg(test)]
mod tests;
