//! Pins that are damaged or belong to another version.

use aya::maps::{Array, HashMap, Map, MapData};
use ratelimit_common::maps::control::{ABI_VERSION, Control};
use ratelimit_tests::{Ratelimit, Sandbox};

use crate::PINS;

/// Asserts that every command refuses the pins, except `detach --all`.
fn assert_refused_as_damaged(ratelimit: &Ratelimit<'_>, detail: &str) {
    for words in ["status", "attach eth0", "limit set default --packets 1/s", "sources", "detach eth0"] {
        let line = ratelimit.fails(words);
        assert!(line.contains("do not have the layout of this version") && line.contains(detail), "{words}: {line}");
    }
    assert_eq!(ratelimit.ok("detach --all"), "detached from eth0; all rules and counters are removed\n");
    ratelimit.ok("attach eth0");
    ratelimit.ok("detach --all");
}

#[test]
fn pins_of_another_version_are_refused_until_they_are_upgraded() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    sandbox.victim(|| {
        let data = MapData::from_pin(format!("{PINS}/CONTROL")).unwrap();
        let mut control = Array::<_, Control>::try_from(Map::Array(data)).unwrap();
        let entry = control.get(&0, 0).unwrap();
        control.set(0, Control { abi: 4_711, ..entry }, 0).unwrap();
    });
    for words in ["status", "attach eth0", "limit set default --packets 1/s", "sources", "detach eth0"] {
        let line = ratelimit.fails(words);
        let expected = format!("is of another version (layout 4711, this is {ABI_VERSION}): run `ratelimit upgrade`");
        assert!(line.contains(&expected), "{words}: {line}");
    }
    ratelimit.ok("upgrade");
    ratelimit.ok("attach eth0");
    ratelimit.ok("detach --all");
}

#[test]
fn a_map_of_another_layout_is_refused() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    sandbox.victim(|| {
        std::fs::remove_file(format!("{PINS}/SOURCE_RULES")).unwrap();
        HashMap::<MapData, u32, u32>::create(8, 0).unwrap().pin(format!("{PINS}/SOURCE_RULES")).unwrap();
    });
    assert_refused_as_damaged(&ratelimit, "SOURCE_RULES is a Hash of 4 + 4 bytes, 8 entries");
}

#[test]
fn a_missing_map_is_refused() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    sandbox.victim(|| std::fs::remove_file(format!("{PINS}/BUCKETS")).unwrap());
    assert_refused_as_damaged(&ratelimit, "BUCKETS");
}
