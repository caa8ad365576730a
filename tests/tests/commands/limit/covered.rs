//! Temporary rules over permanent ones, and changes that replace an allow.

use ratelimit_tests::{Daemon, Folder, Ratelimit, Sandbox, flat};
use serde_json::json;

#[test]
fn a_temporary_rule_shows_and_gives_back_the_permanent_one() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    ratelimit.ok("limit set 10.0.0.1 --packets 5/s");
    let text = ratelimit.ok("deny add 10.0.0.1 --for 1h");
    assert_eq!(text, "10.0.0.1: deny, expires in 1h, then 5/s again\n");
    assert_eq!(ratelimit.json("deny list")[0]["covers"], "5/s");
    let table = ratelimit.ok("deny list");
    assert!(table.contains(", then 5/s"), "{table}");
    // The list of limits has it, too.
    let covered = flat(ratelimit.json("limit list")[0].take());
    assert_eq!([&covered["packets"], &covered["expires_in_seconds"]], [&json!("5/s"), &json!(null)], "{covered}");
    assert!(covered["covered_by"].as_str().unwrap().starts_with("deny for 59m"), "{covered}");
    let table = ratelimit.ok("limit list");
    assert!(table.contains("never, covered by deny for 59m"), "{table}");
    // A second temporary rule covers the same one.
    let text = ratelimit.ok("limit set 10.0.0.1 --packets 9/s --for 2h");
    assert_eq!(text, "10.0.0.1: 9/s per source, burst 9, expires in 2h, then 5/s again (replaced: deny)\n");
    assert_eq!(ratelimit.ok("limit del 10.0.0.1"), "10.0.0.1: limit deleted, 5/s again\n");
    let limit = flat(ratelimit.json("limit list")[0].take());
    assert_eq!([&limit["packets"], &limit["covered_by"]], [&json!("5/s"), &json!(null)]);
    // The covered rule can be deleted alone.
    ratelimit.ok("deny add 10.0.0.1 --for 1h");
    assert_eq!(ratelimit.ok("limit del 10.0.0.1"), "10.0.0.1: limit deleted: 5/s does not return after deny\n");
    assert!(ratelimit.json("deny list")[0]["covers"].is_null());
    ratelimit.ok_with("limit set - --packets 5/s", "10.0.0.2\n");
    ratelimit.ok_with("deny add - --for 1h", "10.0.0.2\n");
    assert_eq!(ratelimit.ok_with("limit del -", "10.0.0.2\n"), "1 line: limit deleted\n");
    assert!(ratelimit.json("deny list")[1]["covers"].is_null());
    ratelimit.ok("detach --all");
}

/// Returns after about a second.
#[test]
fn the_list_has_the_permanent_rule_once_the_temporary_one_has_ended() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    ratelimit.ok("allow add 10.0.0.0/24");
    ratelimit.ok("deny add 10.0.0.0/24 --for 1s --force");
    while ratelimit.json("deny list")[0]["source"] == "10.0.0.0/24" {}
    let rule = ratelimit.json("allow list")[0].take();
    assert_eq!((rule["source"].as_str(), rule["expires_in_seconds"].as_u64()), (Some("10.0.0.0/24"), None));
    // The next change removes what has ended. The permanent rule stays.
    ratelimit.ok("deny add 10.0.9.0/24");
    assert_eq!(ratelimit.json("allow list")[0], rule);
    ratelimit.ok("detach --all");
}

#[test]
fn a_feed_shortens_no_permanent_rule() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    ratelimit.ok("deny add 10.0.0.1");
    assert_eq!(ratelimit.ok("deny add 10.0.0.1 --for 1h"), "10.0.0.1: deny, without an end as before\n");
    let text = ratelimit.ok_with("deny add - --for 1h", "10.0.0.1\n10.0.0.2\n");
    assert_eq!(text, "2 rules: deny, expires in 1h (1 without an end as before)\n");
    let ends: Vec<bool> = ratelimit
        .json("deny list")
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| rule["expires_in_seconds"].is_null())
        .collect();
    assert_eq!(ends, [true, false]);
    ratelimit.ok("detach --all");
}

#[test]
fn an_allow_is_replaced_only_with_force() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    ratelimit.ok("allow add 10.0.0.1");
    let before = ratelimit.json("allow list");
    for words in ["deny add 10.0.0.1", "deny add 10.0.0.1 --for 1h", "limit set 10.0.0.1 --packets 5/s"] {
        assert_eq!(
            ratelimit.fails(words),
            "ratelimit: 10.0.0.1 has the rule allow, which this would replace: nothing was changed, --force does it anyway",
            "{words}"
        );
        assert_eq!(ratelimit.json("allow list"), before, "{words}");
    }
    // The operator's own longer prefix, or another service, replaces nothing.
    ratelimit.ok("allow add 10.1.0.0/16");
    ratelimit.ok("deny add 10.1.0.1");
    ratelimit.ok("deny add 10.0.0.1 --service udp/53");
    // A rule that denies too makes no difference.
    assert_eq!(ratelimit.ok("deny add 10.0.0.1 --force"), "10.0.0.1: deny (replaced: allow)\n");
    ratelimit.ok("detach --all");
}

#[test]
fn a_feed_cuts_into_no_allowed_prefix() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    ratelimit.ok("allow add 10.0.0.0/24");
    ratelimit.ok("allow add 2001:db8::1");
    let feed = "192.0.2.1\n10.0.0.7\n2001:db8::1\n";
    for service in ["", " --service udp/53"] {
        let output = ratelimit.run_with(&format!("deny add -{service}"), feed);
        let name = service.replace(" --service", "");
        let end = if service.is_empty() {
            "has the rule allow, which this would replace"
        } else {
            "is inside 2001:db8::1, which has the rule allow"
        };
        assert_eq!(
            output.stderr.lines().collect::<Vec<_>>(),
            [
                format!("ratelimit: line 2: 10.0.0.7{name} is inside 10.0.0.0/24, which has the rule allow"),
                format!("ratelimit: line 3: 2001:db8::1{name} {end}"),
                "ratelimit: 2 of 3 lines would overrule a rule allow: nothing was changed, --skip-bad skips them, --force sets them".to_owned(),
            ]
        );
        assert_eq!((output.status, ratelimit.json("deny list")), (2, serde_json::json!([])));
    }
    assert_eq!(ratelimit.run_with("deny add - --skip-bad", "10.0.0.7\n").status, 1);
    assert_eq!(ratelimit.run_with("deny add - --skip-bad", feed).stdout, "1 rule: deny, 2 lines skipped\n");
    let text = ratelimit.ok_with("deny add - --force", feed);
    assert_eq!(text, "3 rules: deny (replaced 1 other rule)\n  2001:db8::1: was allow\n");
    ratelimit.ok("detach --all");
}

#[test]
fn a_rule_of_the_file_waits_below_a_temporary_rule_of_a_command() {
    let file =
        |packets: &str| format!("interfaces = [\"eth0\"]\n[[rule]]\nsource = \"10.0.0.1\"\npackets = \"{packets}\"\n");
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    folder.write(&file("5/s"));
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    ratelimit.ok("deny add 10.0.0.1 --for 1h");
    let covered = || ratelimit.json("deny list")[0]["covers"].clone();
    assert_eq!(covered(), "5/s");
    assert!(ratelimit.ok("save").contains("packets = [\"5/s\"]"));
    folder.write(&file("7/s"));
    assert!(
        daemon
            .line()
            .ends_with("rules: 1 set, 0 deleted, 0 unchanged; rules of the file below temporary rules: 10.0.0.1")
    );
    assert_eq!(covered(), "7/s");
    folder.write("interfaces = [\"eth0\"]\n");
    assert!(daemon.line().ends_with("rules: 0 set, 1 deleted, 0 unchanged; deleted 10.0.0.1 (was 7/s)"));
    assert!(covered().is_null());
    folder.write(&file("7/s"));
    daemon.line();
    ratelimit.ok("deny del 10.0.0.1");
    assert_eq!(ratelimit.json("limit list")[0]["origin"], "config");
    daemon.end();
    ratelimit.ok("detach --all");
}
