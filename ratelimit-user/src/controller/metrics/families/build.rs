//! Which build this is.

use ratelimit_common::maps::control::ABI_VERSION;

use super::Family;

pub(in super::super) fn families() -> Vec<Family> {
    let mut family =
        Family::gauge("ratelimit_build_info", "Always 1. The daemon's version, and that of the maps' layout.");
    family.add([("version", env!("CARGO_PKG_VERSION")), ("abi", &ABI_VERSION.to_string())], 1);
    vec![family]
}
