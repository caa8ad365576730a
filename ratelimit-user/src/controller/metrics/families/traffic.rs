//! What became of the packets.

use ratelimit_common::{
    maps::interface_counters::Counts,
    reason::{Count, Reason},
};

use super::Family;
use crate::dataplane::{Error, tables::open::Tables};

/// Packets and bytes, which the same labels tell apart.
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

    /// Adds what was done and what passed in shadow; `labels` adds others to those for verdict and reason.
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

/// `pass` and `drop` are what was done. `shadow` passed, and the reason is why it would not have.
pub(super) fn families(tables: &Tables) -> Result<Vec<Family>, Error> {
    let mut traffic = Traffic::new(
        Family::counter(
            "ratelimit_packets_total",
            "Packets by what became of them and why; those in shadow passed and would have been dropped.",
        ),
        Family::counter("ratelimit_bytes_total", "Bytes of whole frames by what became of them and why."),
    );
    traffic.add_by_reason(&tables.all_counts()?, |labels| labels);
    Ok(traffic.families())
}

fn verdict(reason: Reason) -> &'static str {
    if reason.passes() { "pass" } else { "drop" }
}
