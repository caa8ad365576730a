//! The sources with the most dropped packets, by name. Only if the file requests them, because each makes time series
//! of its own. Their number is bounded, whatever attackers send.

use std::{
    collections::{BTreeMap, HashSet},
    time::Instant,
};

use ratelimit_base::text::{prefix::Prefix, service::ServiceName};
use ratelimit_common::{buckets::bucket::Bucket, identity::source::Source, reason::Count};
use ratelimit_dataplane::{
    Error,
    readings::worst::{self, Search},
    rules::services::Services,
    tables::open::Tables,
};

use super::{
    names::{Name, Names, Wanted},
    page::Family,
    traffic::Traffic,
};

const PASS: &str = "pass";

/// Counts by source, service and verdict, with the [creation](Bucket::creation) of their buckets.
type Counts = BTreeMap<(String, String, &'static str), (Count, u64)>;

/// What the last reading has reported.
#[derive(Debug, Default)]
pub(in crate::controller::metrics) struct Reported {
    counts: Counts,
    names: Names,
}

impl Reported {
    /// Raises counts that have fallen to what was reported. If the source has a new bucket, all counts begin again. Only then a count of passed packets falls.
    fn hold(&mut self, counts: &mut Counts) {
        let begins_anew = |(source, service, _): &(String, String, &'static str), counts: &Counts| {
            let key = (source.clone(), service.clone(), PASS);
            let passed = |counts: &Counts| counts.get(&key).map_or(0, |(count, _)| count.packets);
            passed(counts) < passed(&self.counts)
        };
        let held = counts.iter().filter_map(|(key, (count, creation))| {
            let (before, created_before) = self.counts.get(key)?;
            let is_same = creation == created_before && !begins_anew(key, counts);
            (is_same && count.packets < before.packets).then(|| (key.clone(), (*before, *creation)))
        });
        let held: Vec<_> = held.collect();
        counts.extend(held);
        self.counts.clone_from(counts);
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
            "Packets of the sources with the most drops, since they are tracked. The key sources bounds how many have a name at a time, and how many new names there are in an hour. With cells and a limit, passed packets are estimates, and dropped ones are in a flood.",
        ),
        Family::counter(
            "ratelimit_source_bytes_total",
            "Bytes of whole frames of the sources with the most drops, since they are tracked. The same sources have a name.",
        ),
    );
    let name = |source: &Source| -> Name {
        let (service, _) = services.of_key(source);
        (Prefix::of(source, source.prefix).to_string(), ServiceName(service).to_string())
    };
    let want = |(source, bucket): &(Source, Bucket)| Wanted { name: name(source), has_drops: bucket.over_limit() != 0 };
    let mut wanted: Vec<Wanted> = found.sources.iter().map(want).collect();
    // A source can have several buckets for one service, because new connections can have other rules.
    let mut seen = HashSet::new();
    wanted.retain(|wanted| seen.insert(wanted.name.clone()));
    let given = reported.names.give(&wanted, most, Instant::now());
    let named = wanted.into_iter().zip(given).filter_map(|(wanted, may)| may.then_some(wanted.name));
    let named: HashSet<Name> = named.collect();
    let mut counts = Counts::new();
    // Counts of another instance are others.
    let seed = tables.control()?.seed[0];
    for (source, bucket) in found.sources {
        let name = name(&source);
        if !named.contains(&name) {
            continue;
        }
        let passed = Count { packets: bucket.passed(), bytes: bucket.passed_bytes };
        let shadow = Some(("shadow", bucket.would_drop())).filter(|(_, count)| count.packets != 0);
        for (verdict, Count { packets, bytes }) in
            [(PASS, passed), ("drop", bucket.dropped())].into_iter().chain(shadow)
        {
            let labels = (name.0.clone(), name.1.clone(), verdict);
            let (count, creation) = counts.entry(labels).or_insert((Count::default(), seed));
            *count = Count { packets: count.packets + packets, bytes: count.bytes + bytes };
            *creation = creation.wrapping_add(bucket.creation());
        }
    }
    reported.hold(&mut counts);
    for ((source, service, verdict), (count, _)) in counts {
        traffic.add([("source", &source), ("service", &service), ("verdict", verdict)], count);
    }
    Ok(traffic.families())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_never_falls_while_its_source_has_the_same_bucket() {
        let created = |passed, dropped, creation| {
            [(PASS, passed), ("drop", dropped)]
                .map(|(verdict, packets)| {
                    (
                        ("192.0.2.1".to_owned(), "any".to_owned(), verdict),
                        (Count { packets, bytes: packets * 60 }, creation),
                    )
                })
                .into_iter()
                .collect::<Counts>()
        };
        let counts = |passed, dropped| created(passed, dropped, 0);
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
        assert_eq!(after(counts(0, 1_000)), counts(0, 1_000));
        assert_eq!(after(created(0, 7, 1)), created(0, 7, 1));
    }
}
