//! `detach`.

use std::thread;

use aya::{maps::loaded_maps, programs::loaded_programs};
use ratelimit_tests::{Ratelimit, Sandbox, Sink};

use crate::{PINS, attach::program_id};

#[test]
fn detach_all_leaves_no_pin_link_program_or_map() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 1/s");
    let id = program_id(&ratelimit);
    let info = loaded_programs().flatten().find(|program| program.id() == id).unwrap();
    let maps = info.map_ids().unwrap().unwrap();
    assert!(maps.len() >= 7, "{maps:?}");
    assert_eq!(ratelimit.ok("detach --all"), "detached from eth0; nothing of ratelimit is left\n");
    assert!(sandbox.pins().is_empty());
    assert!(!sandbox.ip("link show eth0").contains("xdp"));
    // The kernel frees unused objects after a grace period. A map or program that remains fails the test by timeout.
    let gone = || {
        let program = loaded_programs().flatten().any(|program| program.id() == id);
        let map = loaded_maps().flatten().any(|map| maps.contains(&map.id()));
        !program && !map
    };
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !gone() {
        assert!(std::time::Instant::now() < deadline, "the kernel still has program {id} or one of the maps {maps:?}");
        thread::yield_now();
    }
}

#[test]
fn detaching_the_last_interface_keeps_the_rules() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 7/s");
    let text = ratelimit.ok("detach eth0");
    assert!(text.starts_with("detached from eth0\nthe rules are kept"), "{text}");
    assert!(ratelimit.ok("status").starts_with("not attached to any interface"));
    assert_eq!(
        ratelimit.fails("detach eth0"),
        "ratelimit: ratelimit is not attached to eth0: `ratelimit status` lists where it is"
    );
    assert!(ratelimit.ok("attach eth0").contains("default: 7/s per source"));
    ratelimit.ok("detach --all");
}

#[test]
fn detach_all_removes_nothing_of_other_programs() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    sandbox.victim(|| {
        std::fs::create_dir("/run/precious").unwrap();
        std::fs::write("/run/precious/program", "not ours").unwrap();
    });
    let line = ratelimit.fails("detach --all --pins /run/precious");
    assert!(line.starts_with("ratelimit: /run/precious is not on a BPF file system"), "{line}");
    assert_eq!(sandbox.victim(|| std::fs::read_to_string("/run/precious/program").unwrap()), "not ours");

    ratelimit.ok("attach eth0");
    let mut sink = Sink::passing(&sandbox, "lo");
    sandbox.victim(|| sink.pin_program(format!("{PINS}/somebody_elses")));
    let line = ratelimit.fails("detach --all");
    assert!(line.contains("ot empty"), "{line}");
    assert_eq!(sandbox.pins().iter().filter(|pin| pin.ends_with("somebody_elses")).count(), 1);
    sandbox.victim(|| std::fs::remove_file(format!("{PINS}/somebody_elses")).unwrap());
    ratelimit.ok("detach --all");
}
