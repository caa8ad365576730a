//! Named lists.

use super::{page::Family, reading::Reading};
use crate::dataplane::{
    Error,
    lists::{change::Action, listing},
};

pub(super) fn families(reading: &Reading<'_>) -> Result<Vec<Family>, Error> {
    let mut entries = Family::gauge("ratelimit_list_entries", "Entries of each list in force, by action.");
    let mut packets = Family::counter(
        "ratelimit_list_dropped_packets_total",
        "Packets that each list with the action deny has refused.",
    );
    let mut bytes =
        Family::counter("ratelimit_list_dropped_bytes_total", "Bytes that each list with the action deny has refused.");
    for list in listing::all(reading.view.tables())? {
        let denies = list.action == Action::Deny;
        entries.add([("list", &list.name), ("action", if denies { "deny" } else { "limit" })], list.entries());
        if denies {
            packets.add([("list", &list.name)], list.hits.packets);
            bytes.add([("list", &list.name)], list.hits.bytes);
        }
    }
    Ok(vec![entries, packets, bytes])
}
