//! The rules in force.

use ratelimit_common::rules::rule::{BANNED, COMMAND, CONFIG, SSH};

use super::{page::Family, reading::Reading};
use crate::dataplane::readings::totals::Kind;

const KINDS: [(Kind, &str); 3] = [(Kind::Limit, "limit"), (Kind::Allow, "allow"), (Kind::Deny, "deny")];
const ORIGINS: [(u8, &str); 4] = [(COMMAND, "command"), (CONFIG, "config"), (SSH, "ssh"), (BANNED, "ban")];

pub(super) fn families(reading: &Reading<'_>) -> Vec<Family> {
    let mut family =
        Family::gauge("ratelimit_rules", "Rules in force by kind and origin. Origin ban: bans by the kernel program.");
    for (kind, kind_name) in KINDS {
        // Zero values are included. A ban is always a deny.
        for (origin, origin_name) in ORIGINS.into_iter().filter(|(origin, _)| *origin != BANNED || kind == Kind::Deny) {
            let count = reading.rules.in_force.get(&(kind, origin)).copied().unwrap_or(0);
            family.add([("kind", kind_name), ("origin", origin_name)], count);
        }
    }
    vec![family]
}
