//! Packets by rule, in the lists of rules.

use ratelimit_tests::{Flood, Folder, Frame, Ratelimit, Sandbox};
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

/// A limit whose sources are all banned has refused their packets.
#[test]
fn a_limit_has_the_packets_of_the_sources_that_it_has_banned() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 1/h --burst 2 --ban 1h --front off");
    ratelimit.ok("limit set 10.9.2.0/24 --packets 1/h --burst 4 --ban 1h");
    for (source, count) in [([10, 9, 1, 1], 20), ([10, 9, 2, 1], 30), ([10, 9, 2, 2], 40)] {
        Flood::of(Frame::udp(source, 9)).send(&sandbox, count);
    }
    assert_eq!(hits(&ratelimit, "limit"), rules(&[("default any", [2, 18, 0]), ("10.9.2.0/24 any", [8, 62, 0])]));
    let bans = [("10.9.1.1 any", [2, 18, 0]), ("10.9.2.1 any", [4, 26, 0]), ("10.9.2.2 any", [4, 36, 0])];
    assert_eq!(hits(&ratelimit, "deny"), rules(&bans));
    // So has a list that limits.
    let folder = Folder::new();
    let list = folder.add("list.txt", "10.9.3.0/24\n");
    ratelimit.ok(&format!("list set some {} --packets 1/h --burst 3 --ban 1h", list.display()));
    for host in 1..=2 {
        Flood::of(Frame::udp([10, 9, 3, host], 9)).send(&sandbox, 10);
    }
    let hits_of_list = ratelimit.json("list list")[0]["hits"].take();
    assert_eq!((&hits_of_list["packets"], &hits_of_list["estimated"]), (&Value::from(14), &Value::from(true)));
    assert_eq!(ratelimit.json("status")["lists"][0]["hits"], hits_of_list);
    // A deny of the operator is no work of the limit.
    ratelimit.ok("deny del 10.9.1.1");
    ratelimit.ok("deny add 10.9.1.1");
    assert_eq!(hits(&ratelimit, "limit")[0], ("default any".to_owned(), [0; 3]));
    ratelimit.ok("detach --all");
}
