//! `sources`.

use std::thread;

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
    let began = jiff::Timestamp::now();
    let row = |source: &str, policy: &str, passed: u64, dropped: u64| {
        let length = if source.contains(':') { 62 } else { 60 };
        let traffic = |packets: u64| json!({"packets": packets, "bytes": packets * length, "estimated": false});
        json!({"source": source, "service": "any", "policy": policy, "passed": traffic(passed), "dropped": traffic(dropped), "would_drop": traffic(0)})
    };
    let sources = [
        row("10.9.0.3", "1/h", 5, 15),
        row("10.9.0.1", "1/h", 5, 5),
        row("10.9.0.2", "allow", 30, 0),
        row("fd00:9:0:7::/64", "1/h", 1, 0),
    ];
    let listed = |words: &str| {
        let mut rows = ratelimit.json(words);
        for row in rows.as_array_mut().unwrap() {
            row["policy"] = row["policy"]["text"].take();
            // The test takes far less than the 69 seconds of a step.
            let times = ["first_seen_at", "last_seen_at"].map(|name| row.as_object_mut().unwrap().remove(name));
            let times = times.map(|time| time.unwrap().as_str().unwrap().parse::<jiff::Timestamp>().unwrap());
            let ages = times.map(|time| began.duration_since(time).as_secs());
            assert!(ages[0] <= 70 && ages[1] <= 6 && times[0] <= times[1], "{row} {ages:?}");
        }
        rows
    };
    assert_eq!(listed("sources"), json!(sources));
    assert_eq!(listed("sources --sort passed -n 1"), json!([sources[2]]));
    let text = ratelimit.ok("sources -n 2");
    assert!(text.ends_with("2 more sources (show all: -n 4)\n"), "{text}");
    assert_eq!(
        text.lines().nth(1),
        Some("10.9.0.3  any      1/h          5           300       15            900  <70s ago    now")
    );
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

#[test]
fn a_prefix_and_a_service_select_sources() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 1/h --burst 5 --front off");
    ratelimit.ok("limit set default --service udp/53 --packets 1/h --burst 2");
    for (host, port) in [(1, 9), (1, 53), (2, 53)] {
        Flood::of(Frame::udp([10, 9, 0, host], port)).send(&sandbox, 10);
    }
    let listed = |arguments: &str| -> Vec<String> {
        let rows = ratelimit.json(&format!("sources {arguments}"));
        let text = |row: &serde_json::Value, field: &str| row[field].as_str().unwrap().to_owned();
        rows.as_array().unwrap().iter().map(|row| text(row, "source") + " " + &text(row, "service")).collect()
    };
    assert_eq!(listed("10.9.0.1 --sort passed"), ["10.9.0.1 any", "10.9.0.1 udp/53"]);
    assert_eq!(listed("10.9.0.0/31 --service udp/53"), ["10.9.0.1 udp/53"]);
    assert_eq!(listed("--service udp/53"), ["10.9.0.1 udp/53", "10.9.0.2 udp/53"]);
    assert_eq!(listed("--service any"), ["10.9.0.1 any"]);
    assert_eq!(listed("10.8.0.0/16").len(), 0);
    ratelimit.ok("detach --all");
}

#[test]
fn rates_are_of_the_packets_in_the_given_time_only() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 1/h --burst 5 --front off");
    Flood::of(Frame::udp([10, 9, 0, 1], 9)).send(&sandbox, 1_000);
    let rows = thread::scope(|scope| {
        let command = scope.spawn(|| ratelimit.json("sources --during 1s"));
        while !command.is_finished() {
            Flood::of(Frame::udp([10, 9, 0, 2], 9)).send(&sandbox, 10);
        }
        command.join().unwrap()
    });
    let none = json!({"passed": 0, "dropped": 0, "would_drop": 0, "estimated": false});
    assert_eq!(rows[0]["source"], "10.9.0.2", "{rows}");
    assert!(rows[0]["per_second"]["dropped"].as_u64().unwrap() > 0, "{rows}");
    assert_eq!((&rows[1]["source"], &rows[1]["per_second"]), (&json!("10.9.0.1"), &none), "{rows}");
    assert!(ratelimit.ok("sources --during 1s").contains("dropped/s"));
    ratelimit.ok("detach --all");
}
