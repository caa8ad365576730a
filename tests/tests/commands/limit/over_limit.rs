//! Actions over a limit, as commands show them.

use ratelimit_tests::{Flood, Frame, Ratelimit, Sandbox};
use serde_json::{Value, json};

fn flood(sandbox: &Sandbox, host: u8, packets: u64) {
    Flood::of(Frame::udp([10, 9, 0, host], 9)).send(sandbox, packets);
}

fn count(status: &Value, reason: &str) -> u64 {
    status["reasons"][reason]["packets"].as_u64().unwrap()
}

#[test]
fn a_ban_follows_the_set_number_of_drops_and_doubles_up_to_its_cap() {
    for front in ["on", "off"] {
        let sandbox = Sandbox::new();
        let ratelimit = Ratelimit::new(&sandbox);
        ratelimit
            .ok(&format!("attach eth0 --packets 1/d --burst 1 --ban 10m --ban-after 5 --ban-cap 15m --front {front}"));
        flood(&sandbox, 66, 5);
        assert_eq!(ratelimit.json("deny list"), json!([]), "{front}");
        flood(&sandbox, 66, 1);
        let ban = |most: u64| {
            let bans = ratelimit.json("deny list");
            let row = &bans[0];
            assert_eq!((&row["source"], &row["origin"]), (&json!("10.9.0.66"), &json!("ban")), "{front}: {bans}");
            let left = row["expires_in_seconds"].as_u64().unwrap();
            assert!((most - 10..=most).contains(&left), "{front}: {left} of {most}");
        };
        ban(600);
        flood(&sandbox, 66, 10);
        assert_eq!(count(&ratelimit.json("status"), "banned"), 10);
        // After a lifted ban the drop count starts again, and the ban history stays.
        ratelimit.ok("deny del 10.9.0.66");
        flood(&sandbox, 66, 4);
        assert_eq!(ratelimit.json("deny list"), json!([]), "{front}");
        flood(&sandbox, 66, 1);
        ban(900);
        ratelimit.ok("detach --all");
    }
}

#[test]
fn replies_are_counted_once_a_limit_uses_reject() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let text = ratelimit.ok("attach eth0 --replies 1/s --packets 1/d --burst 1");
    assert!(text.contains("\nanswers to rejected packets: 1/s in total\n"), "{text}");
    let replies = || ratelimit.json("status")["replies"].clone();
    flood(&sandbox, 66, 11);
    assert_eq!(replies(), json!({"per_second": 1, "sent": 0, "unsent": 0}));
    assert!(!ratelimit.ok("status").contains("answers"));
    ratelimit.ok("limit set default --packets 1/d --burst 1 --over-limit reject");
    flood(&sandbox, 67, 11);
    let known = replies();
    let (sent, unsent) = (known["sent"].as_u64().unwrap(), known["unsent"].as_u64().unwrap());
    assert!(sent >= 1 && sent + unsent == 10, "{known}");
    let line = format!("\nanswers to rejected packets: 1/s in total; {sent} sent, {unsent} not sent\n");
    assert!(ratelimit.ok("status -v").contains(&line));
    let text = ratelimit.ok("attach eth0 --replies off");
    assert!(text.ends_with("answers to rejected packets: none\n"), "{text}");
    flood(&sandbox, 68, 11);
    let known = replies();
    assert_eq!((&known["per_second"], &known["sent"]), (&json!(0), &json!(sent)));
    assert!(ratelimit.ok("status -v").contains(&format!("\nanswers to rejected packets: none; {sent} sent, ")));
    // The packets are still dropped.
    assert_eq!(count(&ratelimit.json("status"), "over-packets"), 30);
    ratelimit.ok("detach --all");
}

#[test]
fn a_limit_in_shadow_drops_nothing_and_counts_would_be_drops() {
    for (front, algorithm) in
        [("on", "token-bucket"), ("off", "token-bucket"), ("on", "sliding-log"), ("on", "fixed-window")]
    {
        let case = format!("{front}, {algorithm}");
        let sandbox = Sandbox::new();
        let ratelimit = Ratelimit::new(&sandbox);
        ratelimit.ok(&format!("attach eth0 --front {front} --sample off"));
        ratelimit.ok("limit set default --packets 1/d --burst 4");
        ratelimit.ok(&format!("limit set 10.9.0.66 --packets 4/d --algorithm {algorithm} --over-limit shadow"));
        flood(&sandbox, 66, 100);
        flood(&sandbox, 67, 100);
        let status = ratelimit.json("status");
        assert_eq!((count(&status, "within-limit"), count(&status, "over-packets")), (8, 96), "{case}");
        let would = json!({"packets": 96, "bytes": 96 * 60});
        assert_eq!(
            status["shadow"],
            json!({"everything": false, "would_drop": would, "reasons": {"over-packets": would}}),
            "{case}"
        );
        assert_eq!((&status["passed"]["packets"], &status["dropped"]["packets"]), (&json!(104), &json!(96)), "{case}");
        let text = ratelimit.ok("status -v");
        assert!(text.contains("over-packets  would drop       96   5760\n"), "{case}: {text}");
        // Counters by source.
        let sources = ratelimit.json("sources");
        let row = |source: &str| {
            let row = sources.as_array().unwrap().iter().find(|row| row["source"] == source).unwrap();
            (row["dropped"]["packets"].as_u64().unwrap(), row["would_drop"]["packets"].as_u64().unwrap())
        };
        assert_eq!((row("10.9.0.66"), row("10.9.0.67")), ((0, 96), (96, 0)), "{case}: {sources}");
        let table = ratelimit.ok("sources");
        assert!(table.lines().next().unwrap().contains("  would drop  "), "{case}: {table}");
        // Enforcement applies to the next packet.
        ratelimit.ok(&format!("limit set 10.9.0.66 --packets 4/d --algorithm {algorithm} --over-limit drop"));
        flood(&sandbox, 66, 10);
        let status = ratelimit.json("status");
        assert_eq!((count(&status, "over-packets"), &status["shadow"]["would_drop"]), (106, &would), "{case}");
        ratelimit.ok("detach --all");
    }
}
