//! Packet verdicts.

use ratelimit_common::{
    maps::interface_counters::Counts,
    reason::{Count, Reason},
};
use ratelimit_dataplane::{Error, tables::open::Tables};

use super::page::Family;

/// A family of packets and one of bytes, with the same labels.
pub(super) struct Traffic {
    packets: Family,
    bytes: Family,
}

impl Traffic {
    pub(super) fn new(packets: Family, bytes: Family) -> Self {
        Self { packets, bytes }
    }

    pub(super) fn add<const N: usize>(&mut self, labels: [(&'static str, &str); N], count: Count) {
        self.packets.add(labels, count.packets);
        self.bytes.add(labels, count.bytes);
    }

    /// Adds the verdicts, including those in shadow mode. `labels` adds further labels to those for verdict and reason.
    pub(super) fn add_by_reason<'a, const N: usize>(
        &mut self,
        counts: &Counts,
        labels: impl Fn([(&'static str, &'static str); 2]) -> [(&'static str, &'a str); N],
    ) {
        for (reason, count) in Reason::ALL.into_iter().zip(counts.done) {
            self.add(labels([("verdict", verdict(reason)), ("reason", reason.name())]), count);
        }
        for (reason, count) in Reason::ALL.into_iter().zip(counts.shadow).filter(|(reason, _)| !reason.passes()) {
            self.add(labels([("verdict", "shadow"), ("reason", reason.name())]), count);
        }
    }

    pub(super) fn families(self) -> Vec<Family> {
        vec![self.packets, self.bytes]
    }
}

/// Returns the families. The verdict `shadow` means: passed, but would be dropped for this reason.
pub(super) fn families(tables: &Tables) -> Result<Vec<Family>, Error> {
    let mut traffic = Traffic::new(
        Family::counter(
            "ratelimit_packets_total",
            "Packets by verdict and reason. Verdict shadow: passed, but would be dropped.",
        ),
        Family::counter("ratelimit_bytes_total", "Bytes of whole frames by verdict and reason."),
    );
    traffic.add_by_reason(&tables.counters.all()?, |labels| labels);
    Ok(traffic.families())
}

fn verdict(reason: Reason) -> &'static str {
    if reason.passes() { "pass" } else { "drop" }
}
