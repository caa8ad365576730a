//! The version of the daemon.

use ratelimit_common::maps::control::ABI_VERSION;

use super::page::Family;

pub(in crate::controller::metrics) fn families() -> Vec<Family> {
    let mut family =
        Family::gauge("ratelimit_build_info", "Always 1. Labels: version of the daemon, version of the map layout.");
    family.add([("version", env!("CARGO_PKG_VERSION")), ("abi", &ABI_VERSION.to_string())], 1);
    vec![family]
}
