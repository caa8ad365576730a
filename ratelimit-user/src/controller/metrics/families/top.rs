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

/// Returns the families, with the sources in the order of `ratelimit sources`.
pub(super) fn families(tables: &Tables, most: usize) -> Result<Vec<Family>, Error> {
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
    // A source can have several buckets for one service, because new connections can have other rules.
    let mut counts = BTreeMap::<(String, String, &str), Count>::new();
    for (source, bucket) in found.sources {
        let (service, _) = services.of_key(&source);
        let refused = if bucket.dropped_packets & IN_SHADOW == 0 { "drop" } else { "shadow" };
        for (verdict, packets, bytes) in [
            ("pass", bucket.passed_packets, bucket.passed_bytes),
            (refused, bucket.dropped_packets & !IN_SHADOW, bucket.dropped_bytes),
        ] {
            let labels = (Prefix::of(&source, source.prefix).to_string(), ServiceName(service).to_string(), verdict);
            let count = counts.entry(labels).or_default();
            *count = Count { packets: count.packets + packets, bytes: count.bytes + bytes };
        }
    }
    for ((source, service, verdict), count) in counts {
        traffic.add([("source", &source), ("service", &service), ("verdict", verdict)], count);
    }
    Ok(traffic.families())
}
