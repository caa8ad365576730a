//! The sources with the most dropped packets, by name. Only if the file requests them, because each makes time series
//! of its own.

use std::collections::BTreeMap;

use ratelimit_common::{buckets::bucket::IN_SHADOW, identity::source::Source, reason::Count};

use super::{page::Family, traffic::Traffic};
use crate::{
    dataplane::{
        Error,
        readings::worst::{self, Search},
        rules::services::Services,
        tables::open::Tables,
    },
    text::prefix::Prefix,
    text::service::ServiceName,
};

const PASS: &str = "pass";

/// Counts by source, service and verdict.
type Counts = BTreeMap<(String, String, &'static str), Count>;

/// What the last reading has reported.
#[derive(Debug, Default)]
pub(in crate::controller::metrics) struct Reported(Counts);

impl Reported {
    /// Raises counts that have fallen to what was reported. A cached refusal that gives way to another takes its count
    /// along. A count of passed packets falls only if the source has a new bucket, and then all counts begin again.
    fn hold(&mut self, counts: &mut Counts) {
        let begins_anew = |(source, service, _): &(String, String, &'static str), counts: &Counts| {
            let key = (source.clone(), service.clone(), PASS);
            let passed = |counts: &Counts| counts.get(&key).map_or(0, |count| count.packets);
            passed(counts) < passed(&self.0)
        };
        let held = counts.iter().filter_map(|(key, count)| {
            let before = self.0.get(key)?;
            let has_fallen = count.packets < before.packets && !begins_anew(key, counts);
            has_fallen.then(|| (key.clone(), *before))
        });
        let held: Vec<_> = held.collect();
        counts.extend(held);
        self.0.clone_from(counts);
    }
}

/// Returns the families, with the sources in the order of `ratelimit sources`.
pub(super) fn families(tables: &Tables, most: usize, reported: &mut Reported) -> Result<Vec<Family>, Error> {
    let services = Services::read(tables)?;
    let search = Search { most, budget: None, rank: worst::by_drops, is_wanted: |_: &Source| true };
    let found = search.find(tables)?;
    let mut traffic = Traffic::new(
        Family::counter(
            "ratelimit_source_packets_total",
            "Packets of the sources with the most drops, since they are tracked. With cells, passed packets within a limit are estimates.",
        ),
        Family::counter(
            "ratelimit_source_bytes_total",
            "Bytes of whole frames of the sources with the most drops, since they are tracked.",
        ),
    );
    let mut counts = Counts::new();
    // A source can have several buckets for one service, because new connections can have other rules.
    for (source, bucket) in found.sources {
        let (service, _) = services.of_key(&source);
        let refused = if bucket.dropped_packets & IN_SHADOW == 0 { "drop" } else { "shadow" };
        for (verdict, packets, bytes) in [
            (PASS, bucket.passed_packets, bucket.passed_bytes),
            (refused, bucket.dropped_packets & !IN_SHADOW, bucket.dropped_bytes),
        ] {
            let labels = (Prefix::of(&source, source.prefix).to_string(), ServiceName(service).to_string(), verdict);
            let count = counts.entry(labels).or_default();
            *count = Count { packets: count.packets + packets, bytes: count.bytes + bytes };
        }
    }
    reported.hold(&mut counts);
    for ((source, service, verdict), count) in counts {
        traffic.add([("source", &source), ("service", &service), ("verdict", verdict)], count);
    }
    Ok(traffic.families())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_never_falls_while_its_source_has_the_same_bucket() {
        let counts = |passed, dropped| {
            [(PASS, passed), ("drop", dropped)]
                .map(|(verdict, packets)| {
                    (("192.0.2.1".to_owned(), "any".to_owned(), verdict), Count { packets, bytes: packets * 60 })
                })
                .into_iter()
                .collect::<Counts>()
        };
        let mut reported = Reported::default();
        let mut after = |now: Counts| {
            let mut held = now;
            reported.hold(&mut held);
            held
        };
        assert_eq!(after(counts(5, 100)), counts(5, 100));
        assert_eq!(after(counts(6, 90)), counts(6, 100));
        assert_eq!(after(counts(6, 101)), counts(6, 101));
        // A new bucket.
        assert_eq!(after(counts(1, 3)), counts(1, 3));
    }
}
