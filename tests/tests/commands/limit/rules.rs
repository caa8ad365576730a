//! Rules of every kind: listed, replaced and deleted.

use ratelimit_common::{identity::source::Source, rules::rule::Rule};
use ratelimit_tests::{Flood, Frame, Ratelimit, Sandbox, flat};
use serde_json::{Value, json};

#[test]
fn limits_are_listed_as_they_were_set() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 1.5k/s");
    let text = ratelimit.ok("limit set 2001:db8::/48 --bytes 100Mbit/s --burst 64");
    assert_eq!(text, "2001:db8::/48: 12.5MB/s per source, burst 64\n");
    ratelimit.ok("limit set 203.0.113.7 --packets 3/m --bytes 10MB/s --for 1h");
    ratelimit.ok("limit set 10.0.0.0/8 --packets 500/h");
    ratelimit.ok("deny add 192.0.2.1");
    let mut list: Value = ratelimit.json("limit list").as_array_mut().unwrap().drain(..).map(flat).collect();
    let left = list[2]["expires_in_seconds"].take();
    assert!((3_590..=3_600).contains(&left.as_u64().unwrap()), "{left}");
    let row = |source, packets, bytes, burst| json!({"source": source, "service": "any", "packets": packets, "bytes": bytes, "burst": burst, "algorithm": "token-bucket", "throttle": "hard", "over_limit": "drop", "parents": [], "ban": null, "expires_in_seconds": null, "covers": null, "covered_by": null, "origin": "command", "policy": null, "comment": null});
    let (none, text) = (json!(null), |text: &str| json!(text));
    assert_eq!(
        list,
        json!([
            row("default", text("1500/s"), none.clone(), 1_500),
            row("10.0.0.0/8", text("500/h"), none.clone(), 500),
            row("203.0.113.7", text("3/m"), text("10MB/s"), 3),
            row("2001:db8::/48", none, text("12.5MB/s"), 64),
        ])
    );
    let table = ratelimit.ok("limit list");
    assert!(
        table.lines().nth(1).unwrap().starts_with(
            "default        any      1500/s   -          1500  token-bucket  hard      drop        -        -    never"
        ),
        "{table}"
    );
    ratelimit.ok("detach --all");
}

#[test]
fn deleting_a_missing_rule_exits_with_status_1() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    ratelimit.ok("deny add 10.0.0.1");
    for (words, expected) in [
        ("limit del default", "default has no limit\n"),
        ("limit del 10.0.0.2", "10.0.0.2 has no limit\n"),
        ("limit del 10.0.0.1", "10.0.0.1 has no limit: it has deny\n"),
        ("deny del 10.0.0.0/24", "10.0.0.0/24 has no rule deny\n"),
        ("allow del 10.0.0.1", "10.0.0.1 has no rule allow: it has deny\n"),
    ] {
        let output = ratelimit.run(words);
        assert_eq!((output.status, output.stdout.as_str(), output.stderr.as_str()), (1, expected, ""), "{words}");
    }
    assert_eq!(
        ratelimit.json("deny list"),
        json!([{"source": "10.0.0.1", "service": "any", "expires_in_seconds": null, "covers": null, "covered_by": null, "origin": "command", "comment": null}])
    );
    ratelimit.ok("detach --all");
}

#[test]
fn a_rule_is_deleted_only_by_its_exact_target() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 9/s");
    for (target, other) in
        [("10.0.0.0/8", "10.0.0.0/9"), ("10.0.0.1", "10.0.0.1/31"), ("fd00::/64", "fd00::"), ("fd00::1", "fd00::/64")]
    {
        ratelimit.ok(&format!("limit set {target} --packets 5/s"));
        let other = other.replace("10.0.0.1/31", "10.0.0.0/31");
        assert_eq!(ratelimit.run(&format!("limit del {other}")).status, 1, "{target} is not {other}");
        let deleted = ratelimit.json(&format!("limit del {target}"));
        assert_eq!(deleted, json!({"deleted": target}));
    }
    ratelimit.ok("limit del default");
    assert_eq!(ratelimit.ok("limit list"), "no limits\n");
    ratelimit.ok("detach --all");
}

#[test]
fn an_expired_rule_is_gone_for_every_command() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    ratelimit.ok("deny add 10.9.0.66 --for 1s");
    ratelimit.ok("deny add fd00:8::66 --for 1s");
    let kept = || {
        sandbox.victim(|| {
            let data = aya::maps::MapData::from_pin("/sys/fs/bpf/ratelimit/SOURCE_RULES").unwrap();
            let map = aya::maps::Map::HashMap(data);
            aya::maps::HashMap::<_, Source, Rule>::try_from(map).unwrap().keys().count()
        })
    };
    assert_eq!((kept(), ratelimit.json("deny list").as_array().unwrap().len()), (1, 2));
    // The program reads the same clock as the command, and tests cannot set it.
    while ratelimit.json("deny list") != json!([]) {
        std::thread::yield_now();
    }
    Flood::of(Frame::udp([10, 9, 0, 66], 9)).send(&sandbox, 10);
    assert_eq!(ratelimit.json("status")["reasons"]["within-limit"]["packets"], 10);
    assert_eq!(ratelimit.run("deny del 10.9.0.66").status, 1);
    ratelimit.ok("limit set 10.9.0.1 --packets 1/s");
    assert_eq!(kept(), 1, "the expired rule still uses an entry");
    ratelimit.ok("detach --all");
}

#[test]
fn a_rule_replaces_the_previous_one_of_its_target() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    ratelimit.ok("deny add 10.9.0.66 --for 10m");
    ratelimit.ok("limit set 10.9.0.66 --packets 1/h --burst 4");
    assert_eq!(ratelimit.json("deny list"), json!([]));
    Flood::of(Frame::udp([10, 9, 0, 66], 9)).send(&sandbox, 10);
    assert_eq!(ratelimit.json("status")["reasons"]["over-packets"]["packets"], 6);
    ratelimit.ok("allow add 10.9.0.66");
    assert_eq!(ratelimit.json("limit list"), json!([]));
    Flood::of(Frame::udp([10, 9, 0, 66], 9)).send(&sandbox, 10);
    assert_eq!(ratelimit.json("status")["reasons"]["allowed"]["packets"], 10);
    ratelimit.ok("detach --all");
}
