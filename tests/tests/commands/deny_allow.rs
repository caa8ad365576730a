//! `deny` and `allow`.

use ratelimit_common::maps::control::FEATURE_BANS;
use ratelimit_tests::{Flood, Frame, Ratelimit, Sandbox};
use serde_json::json;

#[test]
fn a_banned_source_is_listed_as_denied_and_its_ban_can_be_lifted() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let text = ratelimit.ok("attach eth0 --packets 1/h --burst 3 --ban 10m");
    assert!(text.contains("default: 1/h per source, burst 3, ban 10m\n"), "{text}");
    assert_eq!(
        ratelimit.json("limit list")[0]["policy"]["ban"],
        json!({"seconds": 600, "after": 1, "cap_seconds": 4_800})
    );
    Flood::of(Frame::udp([10, 9, 0, 66], 9)).send(&sandbox, 10);
    let bans = ratelimit.json("deny list");
    assert_eq!((&bans[0]["source"], &bans[0]["origin"]), (&json!("10.9.0.66"), &json!("ban")));
    assert!((590..=600).contains(&bans[0]["expires_in_seconds"].as_u64().unwrap()), "{bans}");
    assert_eq!(ratelimit.json("sources")[0]["policy"]["text"], "ban");
    assert_eq!(ratelimit.ok("deny del 10.9.0.66"), "10.9.0.66: no longer banned\n");
    assert_eq!(ratelimit.json("deny list"), json!([]));
    Flood::of(Frame::udp([10, 9, 0, 66], 9)).send(&sandbox, 1);
    assert_eq!(ratelimit.json("deny list")[0]["origin"], "ban");
    // The operator's rule replaces the ban.
    ratelimit.ok("allow add 10.9.0.66");
    assert_eq!(ratelimit.json("deny list"), json!([]));
    // Lifting a ban keeps the operator's rule.
    ratelimit.ok("limit set 10.9.0.66 --packets 1/h --burst 1 --ban 10m --force");
    Flood::of(Frame::udp([10, 9, 0, 66], 9)).send(&sandbox, 10);
    assert_eq!(ratelimit.json("deny list")[0]["origin"], "ban");
    ratelimit.ok("deny del 10.9.0.66");
    assert_eq!(ratelimit.json("limit list")[1]["source"], "10.9.0.66");
    let line = ratelimit.fails("limit set default --ban 10m --parent /24=5/s");
    assert!(line.contains("--ban needs --packets or --bytes"), "{line}");
    ratelimit.ok("detach --all");
}

/// A ban and the longer life of a deny would otherwise be lost without notice.
#[test]
fn what_a_rule_ends_or_shortens_is_named() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 1/h --burst 3 --ban 1h");
    for (words, feed) in [("deny add 10.9.0.66 --for 1m", None), ("deny add - --for 1m", Some("10.9.0.66\n"))] {
        Flood::of(Frame::udp([10, 9, 0, 66], 9)).send(&sandbox, 10);
        let text = feed.map_or_else(|| ratelimit.ok(words), |feed| ratelimit.ok_with(words, feed));
        // The second ban lasts twice as long.
        assert!(text.contains(" ban, expires in ") && text.contains("59m"), "{text}");
        ratelimit.ok("deny del 10.9.0.66");
    }
    ratelimit.ok("deny add 10.9.0.77 --for 1h");
    let shortened = ratelimit.json("deny add 10.9.0.77 --for 1m");
    assert!(shortened["replaced"].as_str().unwrap().starts_with("deny, expires in 59m"), "{shortened}");
    assert_eq!(ratelimit.json("deny add 10.9.0.77 --for 1h")["replaced"], json!(null));
    let text = ratelimit.ok_with("deny add - --for 1m", "10.9.0.77\n");
    assert!(text.contains("10.9.0.77: was deny, expires in 59m"), "{text}");
    ratelimit.ok("detach --all");
}

#[test]
fn a_rule_for_a_prefix_names_the_different_rules_inside() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    ratelimit.ok("deny add 10.9.0.66 10.9.0.0/25");
    ratelimit.ok("allow add 10.9.0.67");
    let inside = "  does not apply to 10.9.0.0/25: deny\n  does not apply to 10.9.0.66: deny\n";
    assert_eq!(ratelimit.ok("allow add 10.9.0.0/24"), format!("10.9.0.0/24: allow\n{inside}"));
    ratelimit.ok("allow add 10.9.0.0/25 10.9.0.66 --force");
    ratelimit.ok_with("deny add -", &(1..=7).map(|last| format!("10.9.1.{last}\n")).collect::<String>());
    let text = ratelimit.ok("allow add 10.9.0.0/16");
    assert!(text.ends_with("10.9.1.5: deny\n  and not to 2 more narrower rules\n"), "{text}");
    ratelimit.ok("detach --all");
}

/// A script cannot know whether a ban has just ended.
#[test]
fn with_if_exists_a_missing_rule_is_no_failure() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    for words in ["deny del", "allow del", "limit del"] {
        assert_eq!(ratelimit.run(&format!("{words} 10.0.0.1")).status, 1, "{words}");
        let line = ratelimit.ok(&format!("{words} 10.0.0.1 --if-exists"));
        assert!(line.starts_with("10.0.0.1 has no "), "{line}");
    }
    assert_eq!(ratelimit.run("limit del default").status, 1);
    ratelimit.ok("limit del default --if-exists");
    // What exists is deleted.
    ratelimit.ok("deny add 10.0.0.2 --for 3600");
    let expires = ratelimit.json("deny list")[0]["expires_in_seconds"].as_u64().unwrap();
    assert!((3_590..=3_600).contains(&expires), "{expires}");
    let rows = ratelimit.json("deny del 10.0.0.1 10.0.0.2 --if-exists");
    assert_eq!(rows, json!([{"deleted": null, "message": "10.0.0.1 has no rule deny"}, {"deleted": "10.0.0.2"}]));
    ratelimit.ok("deny add 10.0.0.3");
    assert_eq!(
        ratelimit.ok_with("deny del - --if-exists", "10.0.0.1\n10.0.0.3\n"),
        "1 line: rule deny deleted, 1 line skipped\n"
    );
    assert_eq!(
        ratelimit.ok_with("deny del - --if-exists", "10.0.0.1\n"),
        "0 lines: rule deny deleted, 1 line skipped\n"
    );
    assert_eq!(ratelimit.json("deny list"), json!([]));
    ratelimit.ok("detach --all");
}

/// The program looks for bans until none is in force. A resize keeps them.
#[test]
fn a_ban_outlasts_its_limit_until_it_is_lifted() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let has_bans = || crate::limit::features::features(&sandbox) & FEATURE_BANS != 0;
    let banned = || ratelimit.json("status")["reasons"]["banned"]["packets"].clone();
    ratelimit.ok("attach eth0 --packets 1/h --burst 3 --ban 10m");
    Flood::of(Frame::udp([10, 9, 0, 66], 9)).sources(2).send(&sandbox, 20);
    ratelimit.ok("limit set default --packets 1000/s --ban off");
    ratelimit.ok("attach eth0 --cells 4096 --max-sources 5000");
    Flood::of(Frame::udp([10, 9, 0, 66], 9)).sources(2).send(&sandbox, 10);
    assert_eq!((banned(), has_bans()), (json!(10), true));
    ratelimit.ok("deny del 10.9.0.66");
    Flood::of(Frame::udp([10, 9, 0, 66], 9)).sources(2).send(&sandbox, 10);
    assert_eq!((banned(), has_bans()), (json!(15), true));
    ratelimit.ok("deny del 10.9.0.67");
    Flood::of(Frame::udp([10, 9, 0, 66], 9)).sources(2).send(&sandbox, 10);
    assert_eq!((banned(), has_bans()), (json!(15), false));
    ratelimit.ok("detach --all");
}

#[test]
fn a_deny_of_a_port_is_listed_with_its_port() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --front off");
    ratelimit.ok("limit set default --service tcp-syn --packets 100/s");
    ratelimit.ok("deny add 10.9.0.66 --service tcp/443");
    Flood::of(Frame::syn([10, 9, 0, 66], 443)).send(&sandbox, 100);
    Flood::of(Frame::syn([10, 9, 0, 66], 80)).send(&sandbox, 10);
    let sources = ratelimit.json("sources");
    let rows: Vec<_> =
        sources.as_array().unwrap().iter().map(|row| [&row["service"], &row["policy"]["text"]]).collect();
    assert_eq!(rows, [["tcp/443", "deny"], ["tcp-syn", "100/s"]]);
    assert_eq!(ratelimit.json("status")["sources"]["tracked"], 2);
    ratelimit.ok("detach --all");
}

#[test]
fn deny_mentions_service_rules_inside_its_prefix() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    ratelimit.ok("limit set 10.9.1.0/24 --service udp/53 --packets 7/s");
    assert_eq!(
        ratelimit.ok("deny add 10.9.1.0/24"),
        "10.9.1.0/24: deny\n  does not apply to 10.9.1.0/24 udp/53: 7/s\n"
    );
    ratelimit.ok("detach eth0");
    let text = ratelimit.ok("deny add 10.10.0.0/24");
    assert!(
        text.ends_with("  not attached to any interface: the rule takes effect at the next `ratelimit attach`\n"),
        "{text}"
    );
    ratelimit.ok("detach --all");
}

/// fail2ban's users write `<ip>/64` to ban the network of an attacker.
#[test]
fn bits_beyond_a_prefix_are_cut_and_the_answer_says_so() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let mask = "255.255.255.0 is a mask: write 203.0.113.0/24";
    assert!(ratelimit.fails("deny add 203.0.113.0 255.255.255.0").contains(mask));
    ratelimit.ok("attach eth0 --packets 1000/s");
    let text = ratelimit.ok("deny add 2001:db8:7::99/64 --for 10m --keep-longer --comment jail");
    assert_eq!(text, "2001:db8:7::99/64 is 2001:db8:7::/64\n2001:db8:7::/64: deny, expires in 10m, comment \"jail\"\n");
    let json = ratelimit.json("deny add 10.0.0.0/24 10.9.0.66/16 --for 10m");
    let seen = json.as_array().unwrap().iter().map(|row| (row["source"].clone(), row["given"].clone()));
    assert_eq!(
        seen.collect::<Vec<_>>(),
        [(json!("10.0.0.0/24"), json!(null)), (json!("10.9.0.0/16"), json!("10.9.0.66/16"))]
    );
    // It is in force.
    let dropped = || ratelimit.json("status")["reasons"]["denied"]["packets"].clone();
    Flood::of(Frame::udp([10, 9, 0, 7], 9)).send(&sandbox, 3);
    assert_eq!(dropped(), 3);
    let deleted = ratelimit.json("deny del 10.9.0.66/16");
    assert_eq!(deleted, json!({"deleted": "10.9.0.0/16", "given": "10.9.0.66/16"}));
    // A list says which lines it has cut.
    let feed = "10.0.0.9/24\n192.0.2.1\n10.1.0.9/8\n";
    let output = ratelimit.run_with("deny del - --if-exists", feed);
    assert!(output.stderr.contains("ratelimit: line 1: 10.0.0.9/24 is 10.0.0.0/24\n"), "{output:?}");
    let output = ratelimit.run_with("deny add - --for 1m --skip-bad -j", feed);
    assert!(output.stderr.ends_with("ratelimit: line 3: 10.1.0.9/8 is 10.0.0.0/8\n"), "{output:?}");
    let set: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!([&set["set"], &set["cut"]], [&json!(2), &json!(2)], "{output:?}");
    ratelimit.ok("deny del 10.1.2.3/8 192.0.2.1");
    // The same holds for every command with a prefix, and a repetition is still one.
    let text = ratelimit.ok("limit set 2001:db8:7::99/48 --packets 5/s");
    assert!(text.starts_with("2001:db8:7::99/48 is 2001:db8:7::/48\n2001:db8:7::/48: 5/s"), "{text}");
    ratelimit.ok("allow add 192.0.2.9/30");
    assert!(ratelimit.fails("deny add 10.0.0.1/24 10.0.0.2/24").contains("10.0.0.0/24 is given twice"));
    for (words, cut) in [
        ("why 2001:db8:7::99/64", "2001:db8:7::99/64 is 2001:db8:7::/64"),
        ("sources 10.9.0.66/16", "10.9.0.66/16 is 10.9.0.0/16"),
    ] {
        let output = ratelimit.run(words);
        assert_eq!((output.status, &*output.stderr), (0, &*format!("ratelimit: {cut}\n")), "{words}");
    }
    for words in ["allow del 192.0.2.10/30", "limit del 2001:db8:7:9::/48", "deny del 2001:db8:7::1:2/64"] {
        ratelimit.ok(words);
    }
    assert_eq!(ratelimit.json("deny list"), json!([]));
    ratelimit.ok("detach --all");
}

/// A ban that could not be counted would otherwise not be in force at all.
#[test]
fn a_rule_that_lasts_longer_than_can_be_counted_has_no_end() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 1000/s");
    let begin = "10.9.0.66: deny, without an end: --for is longer than 584 years";
    for life in ["18446744074", "99999999999999999999999999999", "213503d", "999999999d"] {
        let text = ratelimit.ok(&format!("deny add 10.9.0.66 --for {life} --keep-longer --comment jail"));
        match life {
            "213503d" => assert!(text.starts_with("10.9.0.66: deny, "), "{text}"),
            _ => assert_eq!(text, format!("{begin}, comment \"jail\"\n")),
        }
        Flood::of(Frame::udp([10, 9, 0, 66], 9)).send(&sandbox, 1);
        ratelimit.ok("deny del 10.9.0.66 --comment jail");
    }
    assert_eq!(ratelimit.json("status")["reasons"]["denied"]["packets"], 4);
    let text = ratelimit.ok_with("deny add - --for 999999999d", "10.9.0.67\n");
    assert_eq!(text, "1 rule: deny, without an end: --for is longer than 584 years\n");
    assert_eq!(ratelimit.json("deny list")[0]["expires_in_seconds"], json!(null));
    // An end that comes anyway is named.
    let line = ratelimit.fails("attach eth0 --packets 1000/s --ban 999999999d");
    assert!(line.contains("expected at most 213503d, which is 584 years"), "{line}");
    ratelimit.ok("detach --all");
}
