//! `detach`.

use std::{fs, path::Path, process::Command};

use aya::{
    maps::{HashMap, MapData, loaded_maps},
    programs::loaded_programs,
};
use ratelimit_tests::{Ratelimit, Sandbox, Sink, wait_until};

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
    assert_eq!(ratelimit.ok("detach --all"), "detached from eth0; all rules and counters are removed\n");
    assert!(sandbox.pins().is_empty());
    assert!(!sandbox.ip("link show eth0").contains("xdp"));
    // The kernel frees unused objects after a grace period. A map or program that remains fails the test by timeout.
    let gone = || {
        let program = loaded_programs().flatten().any(|program| program.id() == id);
        let map = loaded_maps().flatten().any(|map| maps.contains(&map.id()));
        !program && !map
    };
    wait_until(&format!("the kernel frees program {id} and the maps {maps:?}"), gone);
}

#[test]
fn detach_all_removes_what_a_later_version_pinned_and_nothing_of_others() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 1/s");
    let mut sink = Sink::passing(&sandbox, "lo");
    sandbox.ip("link add eth1 type veth peer name far1");
    let mut linked = Sink::passing(&sandbox, "eth1");
    let ours = sandbox.victim(|| {
        let pins = Path::new(PINS);
        // A later version may name its maps, programs and folders differently. CLASSES is only for the user side.
        for (name, other) in [("CLASSES", "KINDS"), ("FRONT", "RINGS")] {
            fs::rename(pins.join(name), pins.join(other)).unwrap();
        }
        fs::create_dir(pins.join("phase")).unwrap();
        fs::rename(pins.join("POLICIES"), pins.join("phase/POLICIES")).unwrap();
        HashMap::<MapData, u32, u32>::create(8, 0).unwrap().pin(pins.join("foreign")).unwrap();
        sink.pin_program(format!("{PINS}/foreign_program"));
        linked.pin(format!("{PINS}/links/foreign_link"));
        fs::read_dir(pins).unwrap().count()
    });
    assert!(ours > 20, "{ours} pins");
    drop(sink);
    let left = format!(
        "detached from eth0; all rules and counters are removed\n{PINS}/foreign: stays, because it does not belong to ratelimit\n{PINS}/foreign_program: stays, because it does not belong to ratelimit\n{PINS}/links/foreign_link: stays, because it does not belong to ratelimit\n"
    );
    assert_eq!(ratelimit.ok("detach --all"), left);
    assert!(sandbox.ip("link show eth1").contains("prog/xdp"));
    let pins: Vec<_> = sandbox.pins();
    assert_eq!(pins.len(), 5, "{pins:?}");
    sandbox.victim(|| {
        fs::remove_file(format!("{PINS}/links/foreign_link")).unwrap();
        fs::remove_dir(format!("{PINS}/links")).unwrap();
    });
    assert!(ratelimit.fails("status").contains("is not attached"));
    assert!(ratelimit.fails("limit list").contains("is not attached"));
    ratelimit.ok("attach eth0");
    assert!(ratelimit.ok("detach --all").contains("foreign: stays"));
    sandbox.victim(|| fs::remove_dir_all(PINS).unwrap());
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
fn the_interface_of_the_same_name_in_another_namespace_stays_as_it_is() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let there = |command: &mut Command| sandbox.peer(|| command.output().unwrap());
    let made = there(Command::new("ip").args("link add eth0 type veth peer name far0".split(' ')));
    assert!(made.status.success(), "{made:?}");
    ratelimit.ok("attach eth0");
    let attached = there(&mut ratelimit.command("attach eth0 --capacity 1000/s"));
    assert!(attached.status.success(), "{attached:?}");
    assert_eq!(ratelimit.ok("detach eth0"), "detached from eth0\n");
    let status = there(&mut ratelimit.command("status --json"));
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    let interfaces = status["interfaces"].as_array().unwrap();
    assert_eq!((interfaces.len(), &interfaces[0]["capacity"]), (1, &1_000.into()), "{status}");
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
    let text = ratelimit.ok("detach --all");
    assert!(
        text.ends_with(&format!("\n{PINS}/somebody_elses: stays, because it does not belong to ratelimit\n")),
        "{text}"
    );
    assert_eq!(sandbox.pins().iter().filter(|pin| pin.ends_with("somebody_elses")).count(), 1);
    sandbox.victim(|| std::fs::remove_file(format!("{PINS}/somebody_elses")).unwrap());
    assert_eq!(ratelimit.ok("detach --all"), format!("nothing is attached in {PINS}\n"));
    // A mistyped folder has no instance, and that of an instance without interfaces has one.
    ratelimit.ok("attach eth0");
    let mistyped = "/sys/fs/bpf/ratelimti";
    let text = ratelimit.ok(&format!("detach --all --pins {mistyped}"));
    assert_eq!(text, format!("nothing is attached in {mistyped}\n"));
    assert_eq!(ratelimit.json(&format!("detach --all --pins {mistyped}"))["detached"], serde_json::json!([]));
    assert_eq!(ratelimit.json("status")["interfaces"][0]["mode"], "native");
    ratelimit.ok("detach eth0");
    assert_eq!(ratelimit.ok("detach --all"), "no interface was attached; all rules and counters are removed\n");
}
