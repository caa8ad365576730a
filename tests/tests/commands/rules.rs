//! `limit`, `allow`, `deny`.

use ratelimit_common::{identity::source::Source, rules::rule::Rule};
use ratelimit_tests::{Flood, Frame, Ratelimit, Sandbox};
use serde_json::json;

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
    let mut list = ratelimit.json("limit list");
    let left = list[2]["expires_in"].take();
    assert!((3_590..=3_600).contains(&left.as_u64().unwrap()), "{left}");
    let row = |source, packets, bytes, burst| json!({"source": source, "service": "any", "packets": packets, "bytes": bytes, "burst": burst, "algorithm": "token-bucket", "throttle": "hard", "over_limit": "drop", "parents": [], "ban": null, "expires_in": null, "origin": "command"});
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
fn what_is_not_there_is_a_negative_answer() {
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
        json!([{"source": "10.0.0.1", "service": "any", "expires_in": null, "origin": "command"}])
    );
    ratelimit.ok("detach --all");
}

#[test]
fn a_rule_is_deleted_exactly_as_it_was_set() {
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
fn a_rule_that_has_ended_is_gone_for_every_command() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    ratelimit.ok("deny add 10.9.0.66 --for 1s");
    ratelimit.ok("deny add fd00:9::66 --for 1s");
    let kept = || {
        sandbox.victim(|| {
            let data = aya::maps::MapData::from_pin("/sys/fs/bpf/ratelimit/SOURCE_RULES").unwrap();
            let map = aya::maps::Map::HashMap(data);
            aya::maps::HashMap::<_, Source, Rule>::try_from(map).unwrap().keys().count()
        })
    };
    assert_eq!((kept(), ratelimit.json("deny list").as_array().unwrap().len()), (1, 2));
    // The program reads the same clock as the command, and nobody can move that one.
    while ratelimit.json("deny list") != json!([]) {
        std::thread::yield_now();
    }
    Flood::of(Frame::udp([10, 9, 0, 66], 9)).send(&sandbox, 10);
    assert_eq!(ratelimit.json("status")["reasons"]["within-limit"]["packets"], 10);
    assert_eq!(ratelimit.run("deny del 10.9.0.66").status, 1);
    ratelimit.ok("limit set 10.9.0.1 --packets 1/s");
    assert_eq!(kept(), 1, "the ended rule still takes room");
    ratelimit.ok("detach --all");
}

#[test]
fn a_rule_replaces_the_one_before_it() {
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

#[test]
fn who_exceeds_a_limit_with_a_ban_is_listed_as_denied_and_can_be_let_in() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let text = ratelimit.ok("attach eth0 --packets 1/h --burst 3 --ban 10m");
    assert!(text.contains("default: 1/h per source, burst 3, ban 10m\n"), "{text}");
    assert_eq!(ratelimit.json("limit list")[0]["ban"], json!({"seconds": 600, "after": 1, "cap_seconds": 4_800}));
    Flood::of(Frame::udp([10, 9, 0, 66], 9)).send(&sandbox, 10);
    let bans = ratelimit.json("deny list");
    assert_eq!((&bans[0]["source"], &bans[0]["origin"]), (&json!("10.9.0.66"), &json!("ban")));
    assert!((590..=600).contains(&bans[0]["expires_in"].as_u64().unwrap()), "{bans}");
    assert_eq!(ratelimit.json("sources")[0]["policy"], "ban");
    assert_eq!(ratelimit.ok("deny del 10.9.0.66"), "10.9.0.66: no longer banned\n");
    assert_eq!(ratelimit.json("deny list"), json!([]));
    Flood::of(Frame::udp([10, 9, 0, 66], 9)).send(&sandbox, 1);
    assert_eq!(ratelimit.json("deny list")[0]["origin"], "ban");
    // What the operator says counts.
    ratelimit.ok("allow add 10.9.0.66");
    assert_eq!(ratelimit.json("deny list"), json!([]));
    // Lifting a ban leaves the operator's own rule alone.
    ratelimit.ok("limit set 10.9.0.66 --packets 1/h --burst 1 --ban 10m");
    Flood::of(Frame::udp([10, 9, 0, 66], 9)).send(&sandbox, 10);
    assert_eq!(ratelimit.json("deny list")[0]["origin"], "ban");
    ratelimit.ok("deny del 10.9.0.66");
    assert_eq!(ratelimit.json("limit list")[1]["source"], "10.9.0.66");
    let line = ratelimit.fails("limit set default --ban 10m --parent /24=5/s");
    assert!(line.contains("--ban goes with --packets or --bytes"), "{line}");
    ratelimit.ok("detach --all");
}
