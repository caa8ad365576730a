//! Rules for many sources, one per line of standard input.

mod interrupted;

use std::net::Ipv4Addr;

use ratelimit_tests::{Flood, Frame, Ratelimit, Sandbox, stdin};
use serde_json::json;

/// Returns the rules of both lists.
fn rules(ratelimit: &Ratelimit<'_>) -> Vec<String> {
    let mut sources = Vec::new();
    for list in ["limit list", "deny list", "allow list"] {
        for row in ratelimit.json(list).as_array().unwrap() {
            sources.push(format!("{list} {} {}", row["source"].as_str().unwrap(), row["service"].as_str().unwrap()));
        }
    }
    sources
}

#[test]
fn every_line_gets_the_rule() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    let lines = "# a list\n10.0.0.0/24 # one of it\n\n2001:db8::/32\r\n2001:db9::1\n";
    let text = ratelimit.ok_with("limit set - --packets 5/s --service udp/53 --for 1h", lines);
    assert_eq!(text, "3 rules: 5/s per source, burst 5, expires in 1h\n");
    let text = ratelimit.ok_with("deny add -", "192.0.2.1\n192.0.2.2");
    assert_eq!(text, "2 rules: deny\n");
    assert_eq!(
        rules(&ratelimit),
        [
            "limit list 10.0.0.0/24 udp/53",
            "limit list 2001:db8::/32 udp/53",
            "limit list 2001:db9::1 udp/53",
            "deny list 192.0.2.1 any",
            "deny list 192.0.2.2 any",
        ]
    );
    ratelimit.ok("detach --all");
}

#[test]
fn a_list_without_addresses_exits_with_status_1() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    let message = "standard input has no address: nothing was changed";
    for words in ["deny add -", "limit set - --packets 5/s", "allow del -", "limit del -"] {
        for lines in ["", "# nothing\n\n"] {
            let output = ratelimit.run_with(words, lines);
            assert_eq!((output.status, output.stdout.as_str()), (1, ""), "{words}");
            assert_eq!(output.stderr, format!("ratelimit: {message}\n"), "{words}");
            let output = ratelimit.run_with(&format!("{words} --json"), lines);
            let answer: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
            assert_eq!((output.status, output.stderr.as_str()), (1, ""), "{words}");
            assert_eq!(answer, json!({"deleted": null, "message": message}), "{words}");
        }
    }
    assert_eq!(ratelimit.run_with("deny add - --skip-bad", "10.0.0.300\n").status, 1);
    assert!(rules(&ratelimit).is_empty());
    ratelimit.ok("detach --all");
}

#[test]
fn replaced_rules_are_named() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    let lines = "10.0.0.1\n10.0.0.2\n192.0.2.0/24\n";
    ratelimit.ok("deny add 10.0.0.1");
    ratelimit.ok("allow add 10.0.0.2");
    assert_eq!(
        ratelimit.ok_with("allow add -", lines),
        "3 rules: allow (replaced 1 other rule)\n  10.0.0.1: was deny\n"
    );
    assert_eq!(ratelimit.ok_with("allow add -", lines), "3 rules: allow\n");
    let text = ratelimit.ok_with("allow add - --for 1h", lines);
    assert_eq!(text, "3 rules: allow, expires in 1h (3 without an end as before)\n");
    let lines_of_limits = "10.0.0.1\n10.0.0.3\n192.0.2.0/24\n";
    let text = ratelimit.ok_with("limit set - --packets 5/s --json --force", lines_of_limits);
    let replaced = |source| json!({"source": source, "service": "any", "rule": "allow"});
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&text).unwrap(),
        json!({"set": 3, "lasting": 0, "replaced": [replaced("10.0.0.1"), replaced("192.0.2.0/24")], "kept": [], "skipped": 0})
    );
    let more: String = (1..=30).map(|number| format!("10.2.0.{number}\n")).collect();
    ratelimit.ok_with("deny add -", &more);
    let text = ratelimit.ok_with("limit set - --packets 5/s", &more);
    assert!(text.contains(" (replaced 30 other rules)\n  10.2.0.1: was deny\n"), "{text}");
    assert!(text.ends_with("  10.2.0.20: was deny\n  and 10 more, which --json names\n"), "{text}");
    // A rule for a service is a different rule.
    assert_eq!(ratelimit.ok_with("deny add - --service icmp --force", lines), "3 rules: deny\n");
    ratelimit.ok("detach --all");
}

#[test]
fn lines_of_feeds_are_read() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    let feed = "; drop list\n1.10.16.0/20 ; SBL256894\n\"2024-05-01\",\"192.0.2.1\",\"443\"\n10.0.0.1/24 # lab\n\
                198.51.100.4-198.51.100.9\n";
    assert_eq!(ratelimit.ok_with("deny add -", feed), "5 rules: deny\n");
    let expected = ["1.10.16.0/20", "10.0.0.0/24", "192.0.2.1", "198.51.100.4/30", "198.51.100.8/31"];
    assert_eq!(rules(&ratelimit), expected.map(|prefix| format!("deny list {prefix} any")));
    assert_eq!(ratelimit.ok_with("deny del -", feed), "5 lines: rule deny deleted\n");
    ratelimit.ok("detach --all");
}

#[test]
fn bad_lines_are_named_and_change_nothing_without_skip_bad() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    ratelimit.ok("deny add 10.9.9.9");
    let before = rules(&ratelimit);
    let lines = "10.0.0.1\n10.0.0.1\n10.0.0.300\n10.0.0.0/8\n10.0.0.1/8\ndefault\n";
    let output = ratelimit.run_with("deny add -", lines);
    assert_eq!(output.status, 2);
    assert_eq!(
        output.stderr.lines().collect::<Vec<_>>(),
        [
            "ratelimit: line 3: 10.0.0.300: expected an address or a prefix, such as 203.0.113.7, 203.0.113.0/24 or 2001:db8::/48",
            "ratelimit: line 6: default: expected an address or a prefix, such as 203.0.113.7, 203.0.113.0/24 or 2001:db8::/48",
            "ratelimit: 2 of 6 lines cannot be used: nothing was changed, --skip-bad skips them",
        ]
    );
    assert_eq!(rules(&ratelimit), before);
    let output = ratelimit.run_with("deny add - --skip-bad", lines);
    let spared = "  10.0.0.0/8 is not applied to 10.9.0.1 (an address of this host)\n";
    // Lines inside another line are merged with it.
    assert_eq!((output.status, output.stdout), (0, format!("1 rule: deny, 2 lines skipped\n{spared}")));
    assert_eq!(rules(&ratelimit), ["deny list 10.0.0.0/8 any", "deny list 10.9.9.9 any"]);
    ratelimit.ok("detach --all");
}

#[test]
fn a_line_that_is_too_wide_is_bad_in_each_command_that_sets_rules() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    let lines = "192.0.2.1\n0.0.0.0/0\n2001::/8\n";
    for words in ["deny add -", "allow add - --force", "limit set - --packets 5/s --force"] {
        let output = ratelimit.run_with(words, lines);
        assert_eq!(output.status, 2, "{words}");
        let named: Vec<_> = output.stderr.lines().collect();
        for (line, begin) in named.iter().zip(["line 2: 0.0.0.0/0: too wide", "line 3: 2001::/8: too wide"]) {
            assert!(line.starts_with(&format!("ratelimit: {begin} for a list, which has prefixes of /8")), "{named:?}");
        }
        assert!(named.len() == 3 && named[2].contains("2 of 3 lines cannot be used: nothing was changed"), "{named:?}");
        let output = ratelimit.run_with(&format!("{words} --skip-bad"), lines);
        assert!(output.status == 0 && output.stdout.contains(", 2 lines skipped"), "{output:?}");
        assert_eq!(rules(&ratelimit).len(), 1, "{words}");
        assert!(rules(&ratelimit)[0].contains(" 192.0.2.1 "), "{words}");
    }
    // One that is there can be deleted.
    ratelimit.ok("deny add 10.0.0.0/7 --force");
    assert_eq!(ratelimit.ok_with("deny del -", "10.0.0.0/7\n"), "1 line: rule deny deleted\n");
    ratelimit.ok("detach --all");
}

#[test]
fn a_list_that_blocks_an_ssh_session_requires_force() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    // A failed command lifts no ban.
    ratelimit.ok("limit set 10.8.7.0/24 --packets 1/d --ban 1h");
    let source = Ipv4Addr::new(10, 8, 7, 1);
    sandbox.add_peer_address(source);
    Flood::of(Frame::udp(source, 9)).send(&sandbox, 10);
    let before = rules(&ratelimit);
    assert!(before.contains(&"deny list 10.8.7.1 any".to_owned()), "{before:?}");
    let lines = "10.8.7.1\n10.9.0.0/24\n2001:db8::/32";
    let deny = |words: &str| {
        let mut command = ratelimit.command(words);
        ratelimit.output(command.env("SSH_CONNECTION", "10.9.0.2 50000 10.9.0.1 22").stdin(stdin(lines)))
    };
    let output = deny("deny add - --no-allow-ssh");
    assert_eq!(
        (output.status, output.stderr.as_str()),
        (
            2,
            "ratelimit: this SSH session comes from 10.9.0.2, which would be denied by the rule for 10.9.0.0/24: nothing was changed, --force does it anyway; `ratelimit allow add 10.9.0.2` keeps the session\n"
        )
    );
    assert_eq!(rules(&ratelimit), before);
    assert_eq!(deny("deny add - --force").status, 0);
    assert_eq!(rules(&ratelimit).len(), 4);
    ratelimit.ok("detach --all");
}

#[test]
fn a_list_that_does_not_fit_changes_nothing() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    ratelimit.ok("limit set 10.0.0.0 --packets 7/s");
    ratelimit.ok("limit set 192.0.2.0/24 --packets 7/s");
    // One more than fits into the table.
    let hosts: String = (0..1u32 << 20).map(|n| format!("11.{}.{}.{}\n", n >> 16, n >> 8 & 255, n & 255)).collect();
    let error = ratelimit.run_with("limit set - --packets 5/s", &hosts);
    assert_eq!(
        (error.status, error.stderr.as_str()),
        (2, "ratelimit: the table of source rules is full (1048576): delete some first\n")
    );
    assert_eq!(rules(&ratelimit), ["limit list 10.0.0.0 any", "limit list 192.0.2.0/24 any"]);
    ratelimit.ok("limit del 10.0.0.0");
    assert_eq!(ratelimit.ok_with("limit set - --packets 5/s", &hosts), "1048576 rules: 5/s per source, burst 5\n");
    ratelimit.ok("detach --all");
}

#[test]
fn every_line_loses_the_rule() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    ratelimit.ok_with("deny add -", "192.0.2.0/24\n2001:db8::/32\n");
    ratelimit.ok("deny add 192.0.2.7");
    ratelimit.ok_with("allow add -", "10.0.0.1\n10.0.0.2\n");
    ratelimit.ok_with("limit set - --packets 5/s --service udp/53 --force", "10.0.0.1\n10.0.0.2\n");
    let text = ratelimit.ok_with("deny del -", "# a list\n192.0.2.7\n192.0.2.0/24\n2001:db8::/32\n");
    assert_eq!(text, "3 lines: rule deny deleted\n");
    let text = ratelimit.ok_with("limit del - --service udp/53 --json", "10.0.0.1\n");
    assert_eq!(text, "{\"deleted\":1,\"skipped\":0}\n");
    let left = ["limit list 10.0.0.2 udp/53", "allow list 10.0.0.1 any", "allow list 10.0.0.2 any"];
    assert_eq!(rules(&ratelimit), left);
    let lines = "10.0.0.2\n10.0.0.3\n10.0.0.1\n";
    let output = ratelimit.run_with("limit del -", "10.0.0.2\n");
    assert_eq!((output.status, output.stdout.as_str()), (1, ""));
    assert!(output.stderr.starts_with("ratelimit: line 1: 10.0.0.2 has no limit: it has "), "{output:?}");
    let output = ratelimit.run_with("allow del -", lines);
    assert_eq!(
        (output.status, output.stderr.as_str()),
        (
            1,
            "ratelimit: line 2: 10.0.0.3 has no rule allow\n\
             ratelimit: 1 of 3 lines cannot be deleted: nothing was changed, --skip-bad skips them\n"
        )
    );
    assert_eq!(ratelimit.run_with("deny del - --skip-bad", lines).status, 1);
    assert_eq!(ratelimit.run_with("allow del -", "10.0.0.1\n10.0.0.300\n").status, 2);
    assert_eq!(rules(&ratelimit), left);
    let text = ratelimit.ok_with("allow del - --skip-bad", lines);
    assert_eq!(text, "2 lines: rule allow deleted, 1 line skipped\n");
    assert_eq!(rules(&ratelimit), left[..1]);
    ratelimit.ok("detach --all");
}

#[test]
fn deleting_a_list_of_denies_lifts_bans_and_keeps_limits() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    let source = Ipv4Addr::new(10, 8, 7, 1);
    ratelimit.ok(&format!("limit set {source} --packets 1/d --ban 1h"));
    sandbox.add_peer_address(source);
    Flood::of(Frame::udp(source, 9)).send(&sandbox, 10);
    assert_eq!(rules(&ratelimit), ["limit list 10.8.7.1 any", "deny list 10.8.7.1 any"]);
    assert_eq!(ratelimit.run_with("allow del -", "10.8.7.1").status, 1);
    ratelimit.ok_with("deny del -", "10.8.7.1");
    assert_eq!(rules(&ratelimit), ["limit list 10.8.7.1 any"]);
    ratelimit.ok("detach --all");
}

#[test]
fn deleting_a_list_of_allows_that_protects_an_ssh_session_requires_force() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    ratelimit.ok_with("allow add -", "10.9.0.2\n192.0.2.1\n");
    ratelimit.ok("deny add 10.9.0.0/24");
    let before = rules(&ratelimit);
    let delete = |words: &str| {
        let mut command = ratelimit.command(words);
        let session = ("SSH_CONNECTION", "10.9.0.2 50000 10.9.0.1 22");
        ratelimit.output(command.env(session.0, session.1).stdin(stdin("192.0.2.1\n10.9.0.2\n")))
    };
    let output = delete("allow del -");
    assert_eq!(output.status, 2);
    assert!(output.stderr.contains("this SSH session comes from 10.9.0.2"), "{output:?}");
    assert_eq!(rules(&ratelimit), before);
    assert_eq!(delete("allow del - --force").status, 0);
    assert_eq!(rules(&ratelimit), ["deny list 10.9.0.0/24 any"]);
    ratelimit.ok("detach --all");
}

#[test]
fn a_line_whose_rule_was_merged_into_another_names_the_rule_that_covers_it() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    ratelimit.ok_with("deny add -", "10.9.0.0/24\n10.9.0.66\n");
    Flood::of(Frame::udp([10, 9, 0, 66], 9)).send(&sandbox, 3);
    assert_eq!(ratelimit.json("status")["reasons"]["denied"]["packets"], 3);
    let output = ratelimit.run_with("deny del -", "10.9.0.66\n10.7.0.1\n");
    let lines: Vec<_> = output.stderr.lines().collect();
    let covered = "ratelimit: line 1: 10.9.0.66 has no rule deny: 10.9.0.0/24 covers it, which has deny";
    assert_eq!(
        (output.status, lines[..2].to_vec()),
        (1, vec![covered, "ratelimit: line 2: 10.7.0.1 has no rule deny"])
    );
    assert_eq!(
        ratelimit.run("deny del 10.9.0.66").stdout,
        format!("{}\n", covered.trim_start_matches("ratelimit: line 1: "))
    );
    // A rule of another kind does not cover it.
    assert_eq!(ratelimit.run("allow del 10.9.0.66").stdout, "10.9.0.66 has no rule allow\n");
    ratelimit.ok("deny del 10.9.0.0/24");
    Flood::of(Frame::udp([10, 9, 0, 66], 9)).send(&sandbox, 3);
    assert_eq!(ratelimit.json("status")["reasons"]["denied"]["packets"], 3);
    ratelimit.ok("detach --all");
}
