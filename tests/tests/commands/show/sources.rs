//! `sources`.

use ratelimit_tests::{Flood, Frame, Ratelimit, Sandbox};
use serde_json::json;

#[test]
fn sources_are_sorted_by_dropped_or_passed_packets() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    // A source within its limit is listed only if every source has its own bucket.
    ratelimit.ok("attach eth0 --packets 1/h --burst 5 --front off");
    ratelimit.ok("allow add 10.9.0.2");
    for (host, count) in [(1, 10), (2, 30), (3, 20)] {
        Flood::of(Frame::udp([10, 9, 0, host], 9)).send(&sandbox, count);
    }
    Flood::of(Frame::udp([0xfd00, 9, 0, 7, 0, 0, 0, 1], 9)).send(&sandbox, 1);
    let row = |source: &str, policy: &str, passed: u64, dropped: u64| {
        let length = if source.contains(':') { 62 } else { 60 };
        let traffic = |packets: u64| json!({"packets": packets, "bytes": packets * length});
        json!({"source": source, "service": "any", "policy": policy, "passed": traffic(passed), "dropped": traffic(dropped), "would_drop": {"packets": 0, "bytes": 0}})
    };
    let sources = [
        row("10.9.0.3", "1/h", 5, 15),
        row("10.9.0.1", "1/h", 5, 5),
        row("10.9.0.2", "allow", 30, 0),
        row("fd00:9:0:7::/64", "1/h", 1, 0),
    ];
    assert_eq!(ratelimit.json("sources"), json!(sources));
    assert_eq!(ratelimit.json("sources --sort passed -n 1"), json!([sources[2]]));
    let text = ratelimit.ok("sources -n 2");
    assert!(text.ends_with("2 more sources (show all: -n 4)\n"), "{text}");
    assert_eq!(text.lines().nth(1), Some("10.9.0.3  any      1/h          5           300       15            900"));
    ratelimit.ok("detach --all");
}

#[test]
fn estimated_passed_packets_are_marked() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let estimate = "passed packets within a limit are estimates (see `ratelimit help sources`)\n";
    let help = ratelimit.ok("help sources");
    assert!(help.split_whitespace().collect::<Vec<_>>().join(" ").contains("are an estimate"), "{help}");
    ratelimit.ok("attach eth0");
    ratelimit.ok("deny add 10.9.0.2");
    for host in 1..=2 {
        Flood::of(Frame::udp([10, 9, 0, host], 9)).send(&sandbox, 10);
    }
    // Without a limit the program counts every packet. A denied source has no passed packets.
    let text = ratelimit.ok("sources");
    assert!(text.lines().count() == 3 && !text.contains(estimate), "{text}");
    ratelimit.ok("limit set default --packets 1/h --burst 5");
    Flood::of(Frame::udp([10, 9, 0, 3], 9)).send(&sandbox, 20);
    let text = ratelimit.ok("sources");
    assert!(text.ends_with(estimate), "{text}");
    ratelimit.ok("detach --all");
}
