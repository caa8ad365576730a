//! `attach`, `detach`, `status`.

use std::thread;

use aya::{maps::loaded_maps, programs::loaded_programs};
use ratelimit_tests::{Flood, Frame, Ratelimit, Sandbox, Sink, VICTIM_LINK};
use serde_json::json;

fn program_id(ratelimit: &Ratelimit<'_>) -> u32 {
    ratelimit.json("status")["interfaces"][0]["program_id"].as_u64().unwrap() as u32
}

#[test]
fn attach_without_a_rate_only_observes_and_says_so() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let text = ratelimit.ok("attach eth0");
    assert!(text.starts_with("eth0: attached, native\ndefault: no limit, only observing"), "{text}");
    // What strangers are is told once, where nothing is said of them.
    let hint = "strangers: not limited (`attach --strangers RATE` holds floods from forged addresses)\n";
    assert!(text.ends_with(hint) && !ratelimit.ok("attach eth0").contains("strangers"), "{text}");
    Flood::of(Frame::udp([10, 9, 0, 66], 9)).send(&sandbox, 50_000);
    let status = ratelimit.json("status");
    assert_eq!(status["dropped"], json!({"packets": 0, "bytes": 0}));
    assert_eq!(status["reasons"]["within-limit"], json!({"packets": 50_000, "bytes": 3_000_000}));
    ratelimit.ok("detach --all");
}

#[test]
fn status_follows_the_contract() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 1/h --burst 3 --max-sources 1000");
    Flood::of(Frame::udp([10, 9, 0, 66], 9)).send(&sandbox, 10);
    let id = program_id(&ratelimit);
    let mut status = ratelimit.json("status");
    let reasons = status["reasons"].as_object_mut().unwrap();
    reasons.retain(|_, count| count["packets"] != 0);
    // What the program says of itself is in `gauges.rs`.
    for key in ["front", "admission", "sample", "strangers", "clock", "lost_races", "memory"] {
        assert!(status.as_object_mut().unwrap().remove(key).is_some(), "{key}");
    }
    assert_eq!(
        status,
        json!({
            "interfaces": [{"name": "eth0", "mode": "native", "program_id": id}],
            "passed": {"packets": 3, "bytes": 180},
            "dropped": {"packets": 7, "bytes": 420},
            "reasons": {
                "within-limit": {"packets": 3, "bytes": 180},
                "over-packets": {"packets": 7, "bytes": 420},
            },
            "sources": {"tracked": 1, "buckets": 1, "capacity": 1_000},
            "ipv6_prefix": 64, "malformed": "drop",
            "replies": {"per_second": 100, "sent": 0, "unsent": 0},
            "shadow": {"everything": false, "would_drop": {"packets": 0, "bytes": 0}, "reasons": {}},
        })
    );
    let text = ratelimit.ok("status");
    assert!(text.contains(&format!("eth0: native, program {id}\n")), "{text}");
    assert!(text.contains("over-packets  dropped        7    420"), "{text}");
    // Where nothing is rejected, nothing is said of answers by itself.
    let replies = "\nanswers to rejected packets: 100/s together; 0 sent, 0 left out\n";
    assert!(!text.contains("answers") && ratelimit.ok("status -v").contains(replies), "{text}");
    ratelimit.ok("detach --all");
}

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
    // The kernel frees what nobody holds after a grace period; a map or program that stays fails the test by its time.
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
fn another_program_gives_way_to_replace_and_comes_back_on_failure() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    // Attached by a link, as libbpf and aya do.
    let sink = Sink::passing(&sandbox, VICTIM_LINK);
    ratelimit.ok("attach eth0 --replace");
    assert_ne!(program_id(&ratelimit), sink.program_id());
    ratelimit.ok("detach --all");
    drop(sink);

    // Attached by netlink, as iproute2 does. The failure is an interface that cannot have native XDP.
    let mut sink = Sink::passing(&sandbox, VICTIM_LINK);
    let id = sink.program_id();
    sandbox.victim(|| sink.pin_program("/sys/fs/bpf/pass"));
    drop(sink);
    sandbox.ip("link set dev eth0 xdpdrv pinned /sys/fs/bpf/pass");
    // Now nothing but the interface holds it.
    sandbox.victim(|| std::fs::remove_file("/sys/fs/bpf/pass").unwrap());
    ratelimit.fails("attach eth0 lo --replace");
    let link = sandbox.ip("link show eth0");
    assert!(link.contains(&format!("prog/xdp id {id} ")), "{link}");
    assert!(ratelimit.fails("status").contains("not attached"));
    ratelimit.ok("attach eth0 --replace");
    assert_ne!(program_id(&ratelimit), id);
    ratelimit.ok("detach --all");

    // Attached by a link, whose owner finds it dead: what it let pass or dropped still is.
    let sink = Sink::passing(&sandbox, VICTIM_LINK);
    ratelimit.fails("attach eth0 lo --replace");
    assert!(sandbox.ip("link show eth0").contains(&format!("prog/xdp id {} ", sink.program_id())));
    sandbox.ip("link set dev eth0 xdpdrv off");
}

#[test]
fn an_attach_that_was_killed_is_finished_by_the_next() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    ratelimit.ok("detach eth0");
    // The program is pinned last, so this is what there is before.
    sandbox.victim(|| std::fs::remove_file("/sys/fs/bpf/ratelimit/program").unwrap());
    let line = ratelimit.fails("status");
    assert!(
        line.starts_with(
            "ratelimit: the pinned program is missing, as after an attach that was killed: run `ratelimit attach"
        ),
        "{line}"
    );
    assert!(ratelimit.ok("attach eth0 --packets 5/s").contains("default: 5/s per source, burst 5"));
    // One that still runs keeps its rules, whatever became of its pin.
    sandbox.victim(|| std::fs::remove_file("/sys/fs/bpf/ratelimit/program").unwrap());
    let pins = sandbox.pins();
    assert!(ratelimit.fails("attach eth0").contains("the pinned program is missing"));
    assert_eq!(sandbox.pins(), pins);
    assert!(sandbox.ip("link show eth0").contains("xdp"));
    ratelimit.ok("detach --all");
}

#[test]
fn rules_that_were_kept_are_mentioned() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    assert_eq!(ratelimit.ok("deny add 10.1.1.1 --for 10m"), "10.1.1.1: deny, ends in 10m\n");
    assert_eq!(
        ratelimit.ok("limit set 10.1.1.1 --packets 5/s --for 2h"),
        "10.1.1.1: 5/s per source, burst 5, ends in 2h (instead of: deny, which does not come back)\n"
    );
    assert_eq!(ratelimit.json("allow add 10.1.1.1")["replaced"], "5/s");
    ratelimit.ok("detach eth0");
    let text = ratelimit.ok("attach eth0");
    assert!(
        text.ends_with("default: no limit\nrules in force: 1 (`ratelimit limit list`, `allow list`, `deny list`)\n"),
        "{text}"
    );
    ratelimit.ok("detach --all");
}

#[test]
fn settings_of_a_running_instance_are_not_changed_silently() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --ipv6-prefix 56 --packets 5/s");
    let line = ratelimit.fails("attach eth0 --ipv6-prefix 48");
    assert!(line.contains("has IPv6 prefix 56, not 48"), "{line}");
    // What is not said stays as it is.
    ratelimit.ok("attach eth0");
    assert_eq!(ratelimit.json("status")["ipv6_prefix"], 56);
    ratelimit.ok("detach --all");
    // Strangers are told by cells.
    ratelimit.ok("attach eth0 --front off");
    let line = ratelimit.fails("attach eth0 --strangers 1k/s");
    assert!(line.contains("has no cells, which --strangers needs"), "{line}");
    ratelimit.ok("attach eth0 --strangers off");
    ratelimit.ok("detach --all");
}

#[test]
fn names_with_dots_and_interfaces_that_vanish() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    sandbox.ip("link add wan1.100 type veth peer name far1");
    ratelimit.ok("attach wan1.100 eth0");
    let names = || {
        let status = ratelimit.json("status");
        let interfaces = status["interfaces"].as_array().unwrap().clone();
        interfaces
            .into_iter()
            .map(|row| (row["name"].as_str().unwrap().to_owned(), row["mode"].clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(names(), [("eth0".to_owned(), json!("native")), ("wan1.100".to_owned(), json!("native"))]);
    sandbox.ip("link del wan1.100");
    assert_eq!(names()[1], ("wan1.100".to_owned(), json!(null)));
    // One of the same name can take its place, and a deleted one can be detached from.
    sandbox.ip("link add wan1.100 type veth peer name far1");
    ratelimit.ok("attach wan1.100");
    assert_eq!(names()[1], ("wan1.100".to_owned(), json!("native")));
    sandbox.ip("link del wan1.100");
    ratelimit.ok("detach wan1.100");
    assert_eq!(names().len(), 1);
    ratelimit.ok("detach --all");
}

#[test]
fn a_renamed_interface_goes_by_its_new_name() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    sandbox.ip("link add old0 type veth peer name far0");
    ratelimit.ok("attach old0");
    sandbox.ip("link set old0 name new0");
    assert_eq!(ratelimit.json("status")["interfaces"][0]["name"], "new0");
    // Another one of the old name does not push it out.
    sandbox.ip("link add old0 type veth peer name far1");
    ratelimit.ok("attach old0");
    let status = ratelimit.json("status");
    let names: Vec<_> =
        status["interfaces"].as_array().unwrap().iter().map(|row| (&row["name"], &row["mode"])).collect();
    assert_eq!(names, [(&json!("new0"), &json!("native")), (&json!("old0"), &json!("native"))]);
    ratelimit.ok("detach old0");
    assert!(sandbox.ip("link show new0").contains("xdp") && !sandbox.ip("link show old0").contains("xdp"));
    ratelimit.ok("detach new0");
    ratelimit.ok("detach --all");
}

#[test]
fn commands_at_the_same_time_wait_for_each_other() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    thread::scope(|scope| {
        for number in 0..8 {
            let ratelimit = &ratelimit;
            scope.spawn(move || {
                ratelimit.ok("attach eth0");
                ratelimit.ok(&format!("limit set 10.9.0.{number} --packets {}/s", number + 1));
            });
        }
    });
    assert_eq!(ratelimit.json("limit list").as_array().unwrap().len(), 8);
    ratelimit.ok("detach --all");
}
