//! Packets by rule, in the lists of rules.

use ratelimit_tests::{Flood, Frame, Ratelimit, Sandbox};
use serde_json::Value;

/// Returns the packets of each rule that passed, were dropped, and passed in shadow.
fn hits(ratelimit: &Ratelimit<'_>, list: &str) -> Vec<(String, [u64; 3])> {
    let rows = ratelimit.json(&format!("{list} list --hits"));
    let packets = |row: &Value, what: &str| row["hits"][what]["packets"].as_u64().unwrap();
    let name = |row: &Value| format!("{} {}", row["source"].as_str().unwrap(), row["service"].as_str().unwrap());
    let row = |row: &Value| (name(row), ["passed", "dropped", "would_drop"].map(|what| packets(row, what)));
    rows.as_array().unwrap().iter().map(row).collect()
}

fn rules(expected: &[(&str, [u64; 3])]) -> Vec<(String, [u64; 3])> {
    expected.iter().map(|(name, packets)| ((*name).to_owned(), *packets)).collect()
}

#[test]
fn each_rule_has_the_packets_of_the_sources_that_it_decides_about() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 1/h --burst 2 --front off");
    ratelimit.ok("allow add 10.9.1.0/24");
    ratelimit.ok("deny add 10.9.1.7");
    ratelimit.ok("deny add 10.9.2.0/24 --service udp/53");
    ratelimit.ok("limit set 10.9.2.0/24 --packets 1/h --burst 4");
    ratelimit.ok("limit set 10.9.3.1 --packets 1/h --burst 3 --over-limit shadow");
    ratelimit.ok("limit set fd00:9::/32 --packets 1/h --burst 1");
    let send = |source: [u8; 4], port, count| Flood::of(Frame::udp(source, port)).send(&sandbox, count);
    send([10, 9, 1, 1], 9, 10);
    send([10, 9, 1, 2], 9, 11);
    send([10, 9, 1, 7], 9, 12);
    send([10, 9, 2, 1], 53, 13);
    send([10, 9, 2, 1], 9, 14);
    send([10, 9, 2, 2], 9, 1);
    send([10, 9, 3, 1], 9, 15);
    send([10, 9, 4, 1], 9, 16);
    Flood::of(Frame::udp([0xfd00, 9, 0, 7, 0, 0, 0, 1], 9)).send(&sandbox, 5);
    assert_eq!(hits(&ratelimit, "allow"), rules(&[("10.9.1.0/24 any", [21, 0, 0])]));
    let denies = rules(&[("10.9.1.7 any", [0, 12, 0]), ("10.9.2.0/24 udp/53", [0, 13, 0])]);
    assert_eq!(hits(&ratelimit, "deny"), denies);
    let limits = [
        ("default any", [2, 14, 0]),
        ("10.9.2.0/24 any", [5, 10, 0]),
        ("10.9.3.1 any", [3, 0, 12]),
        ("fd00:9::/32 any", [1, 4, 0]),
    ];
    assert_eq!(hits(&ratelimit, "limit"), rules(&limits));

    // A ban, a list and a temporary rule decide in the place of a rule.
    ratelimit.ok("deny add 10.9.3.1 --for 1h");
    send([10, 9, 3, 1], 9, 2);
    assert_eq!(hits(&ratelimit, "limit")[2], ("10.9.3.1 any".to_owned(), [0; 3]));
    let text = ratelimit.ok("deny list --hits");
    let line = text.lines().find(|line| line.starts_with("10.9.1.7 ")).unwrap();
    assert!(text.lines().next().unwrap().ends_with("passed  dropped  would drop"), "{text}");
    assert_eq!(line.split_whitespace().collect::<Vec<_>>(), ["10.9.1.7", "any", "never", "command", "0", "12", "0"]);
    assert!(ratelimit.json("deny list")[0].get("hits").is_none());
    ratelimit.ok("detach --all");
}

#[test]
fn behind_cells_estimates_are_marked() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 1/h --burst 4");
    ratelimit.ok("deny add 10.9.0.7");
    Flood::of(Frame::udp([10, 9, 0, 7], 9)).send(&sandbox, 30);
    Flood::of(Frame::udp([10, 9, 0, 8], 9)).send(&sandbox, 20);
    let denied = ratelimit.json("deny list --hits")[0]["hits"]["dropped"].take();
    assert_eq!((denied["packets"].as_u64(), denied["estimated"].as_bool()), (Some(30), Some(false)), "{denied}");
    let hits = ratelimit.json("limit list --hits")[0]["hits"].take();
    assert_eq!(hits["dropped"]["packets"], 16, "{hits}");
    let passed = &hits["passed"];
    assert!((1..=4).contains(&passed["packets"].as_u64().unwrap()) && passed["estimated"] == true, "{hits}");
    ratelimit.ok("detach --all");
}
