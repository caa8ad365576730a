//! The sources with the most dropped packets, by name: only where the file asks for them, since each makes series of its own.

use std::{cmp::Reverse, collections::BTreeMap};

use ratelimit_common::{
    buckets::bucket::{Bucket, IN_SHADOW},
    identity::source::Source,
    reason::Count,
};

use super::{Family, traffic::Traffic};
use crate::{
    dataplane::{
        Error,
        rules::{resolve, services::Services},
        tables::open::Tables,
    },
    prefix::Prefix,
    service::ServiceName,
};

/// As `ratelimit sources` orders them.
pub(super) fn families(tables: &Tables, most: usize) -> Result<Vec<Family>, Error> {
    let services = Services::read(tables)?;
    let mut tracked = tables.tracked()?;
    tracked.retain(|(source, bucket)| resolve::is_source(source, bucket));
    if tracked.len() > most {
        tracked.select_nth_unstable_by_key(most, rank);
        tracked.truncate(most);
    }
    tracked.sort_unstable_by_key(rank);
    let mut traffic = Traffic::new(
        Family::counter(
            "ratelimit_source_packets_total",
            "Packets of the sources with the most drops since they are tracked; what passed within a limit is an estimate where there are cells.",
        ),
        Family::counter("ratelimit_source_bytes_total", "The same in bytes of whole frames."),
    );
    // A service can have several buckets of a source, where rules for new connections are about it too.
    let mut counts = BTreeMap::<(String, String, &str), Count>::new();
    for (source, bucket) in tracked {
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

fn rank((source, bucket): &(Source, Bucket)) -> (Reverse<(u64, u64)>, Prefix, u16) {
    let counted = (bucket.dropped_packets & !IN_SHADOW, bucket.passed_packets);
    (Reverse(counted), Prefix::of(source, source.prefix), source.class)
}
