//! The rules and the named lists in force.

use ratelimit_common::rules::rule::{APPLICATION, BANNED, COMMAND, CONFIG, SSH};
use ratelimit_dataplane::{
    Error,
    lists::{action::Action, listing},
    readings::totals::Kind,
};

use super::{page::Family, reading::Reading};

const KINDS: [(Kind, &str); 3] = [(Kind::Limit, "limit"), (Kind::Allow, "allow"), (Kind::Deny, "deny")];
const ORIGINS: [(u8, &str); 5] =
    [(COMMAND, "command"), (CONFIG, "config"), (SSH, "ssh"), (BANNED, "ban"), (APPLICATION, "application")];

pub(super) fn families(reading: &Reading<'_>) -> Vec<Family> {
    let mut family =
        Family::gauge("ratelimit_rules", "Rules in force by kind and origin. Origin ban: bans by the kernel program.");
    for (kind, kind_name) in KINDS {
        // Zero values are included. A ban is always a deny, and applications only have limits.
        let is_possible = |origin: u8| match origin {
            BANNED => kind == Kind::Deny,
            APPLICATION => kind == Kind::Limit,
            _ => true,
        };
        for (origin, origin_name) in ORIGINS.into_iter().filter(|(origin, _)| is_possible(*origin)) {
            let count = reading.rules.in_force.get(&(kind, origin)).copied().unwrap_or(0);
            family.add([("kind", kind_name), ("origin", origin_name)], count);
        }
    }
    vec![family]
}

/// Returns which lists of the file have a file that could be used.
pub(super) fn of_listed(lists: &[(String, bool)]) -> Family {
    let mut usable = Family::gauge(
        "ratelimit_config_list_usable",
        "1 if the file of this list of the configuration file could be used, otherwise 0: the previous list stays in force, if there is one.",
    );
    for (name, is_usable) in lists {
        usable.add([("list", name)], *is_usable);
    }
    usable
}

/// Returns the families of named lists.
pub(super) fn of_lists(reading: &Reading<'_>) -> Result<Vec<Family>, Error> {
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
