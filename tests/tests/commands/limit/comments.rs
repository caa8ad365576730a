//! Comments of rules.

use ratelimit_tests::{Daemon, Flood, Folder, Frame, Ratelimit, Sandbox, stdin};
use serde_json::{Value, json};

/// Returns the comments in a list, by the order of its rules.
fn comments(ratelimit: &Ratelimit<'_>, list: &str) -> Vec<Option<String>> {
    let rows = ratelimit.json(list);
    rows.as_array().unwrap().iter().map(|row| row["comment"].as_str().map(str::to_owned)).collect()
}

/// Runs a command with one argument that has blanks.
fn with_comment(ratelimit: &Ratelimit<'_>, words: &str, comment: &str) -> String {
    let mut command = ratelimit.command(words);
    let output = ratelimit.output(command.args(["--comment", comment]));
    assert_eq!(output.status, 0, "{words}: {output:?}");
    output.stdout
}

#[test]
fn comments_are_listed_saved_and_removed_with_their_rules() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    ratelimit.ok("deny add 10.0.0.0");
    assert!(!ratelimit.ok("deny list").contains("comment"));
    let text = with_comment(&ratelimit, "deny add 10.0.0.1 10.0.0.2", "für NTP, ticket #7");
    assert!(text.starts_with("10.0.0.1: deny, comment \"für NTP, ticket #7\"\n"), "{text}");
    with_comment(&ratelimit, "allow add 10.1.0.0/16 --for 1d", "office");
    with_comment(&ratelimit, "limit set default --packets 5/s --service udp/53", "dns");
    with_comment(&ratelimit, "limit set default --packets 50/s", "all others");
    let text = ratelimit.ok("deny list");
    assert!(text.lines().next().unwrap().ends_with("origin   comment"), "{text}");
    assert_eq!(
        comments(&ratelimit, "deny list"),
        [None, Some("für NTP, ticket #7".into()), Some("für NTP, ticket #7".into())]
    );
    assert_eq!(comments(&ratelimit, "limit list"), [Some("all others".into()), Some("dns".into())]);
    // The same rule keeps its comment, a changed limit too, and another rule does not.
    ratelimit.ok_with("deny add -", "10.0.0.1\n10.0.0.9\n");
    ratelimit.ok("limit set default --packets 60/s");
    ratelimit.ok("limit set 10.0.0.2 --packets 5/s");
    assert_eq!(comments(&ratelimit, "deny list"), [None, Some("für NTP, ticket #7".into()), None]);
    assert_eq!(comments(&ratelimit, "limit list"), [Some("all others".into()), Some("dns".into()), None]);
    with_comment(&ratelimit, "limit set default", "");
    assert_eq!(comments(&ratelimit, "limit list")[0], None);
    with_comment(&ratelimit, "limit set default", "again");
    assert_eq!(ratelimit.json("limit list")[0]["policy"]["packets"][0]["text"], "60/s");
    ratelimit.ok("limit set default --packets 70/s --replace");
    assert_eq!(comments(&ratelimit, "limit list")[0], None);
    // A deleted rule takes its comment with it.
    ratelimit.ok("deny del 10.0.0.1");
    ratelimit.ok("deny add 10.0.0.1");
    ratelimit.ok("limit del default --service udp/53");
    ratelimit.ok("limit set default --packets 5/s --service udp/53");
    assert_eq!(comments(&ratelimit, "deny list"), [None, None, None]);
    assert_eq!(comments(&ratelimit, "limit list")[1], None);
    for (comment, why) in [("a\nb", "one line of text"), (&*"é".repeat(33), "at most 64 bytes")] {
        let mut command = ratelimit.command("deny add 10.0.0.1");
        let output = ratelimit.output(command.args(["--comment", comment]));
        assert!(output.status == 2 && output.stderr.contains(why), "{output:?}");
        assert_eq!(output.stderr.lines().count(), 1, "{output:?}");
    }
    ratelimit.ok("detach --all");
}

#[test]
fn a_temporary_rule_and_the_one_below_it_have_their_own_comments() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    with_comment(&ratelimit, "deny add 10.0.0.1", "lasting");
    with_comment(&ratelimit, "limit set 10.0.0.1 --packets 5/s --for 1h", "for now");
    assert_eq!(comments(&ratelimit, "limit list"), [Some("for now".into())]);
    assert!(ratelimit.ok("save").contains("comment = \"lasting\""));
    ratelimit.ok("limit del 10.0.0.1");
    assert_eq!(comments(&ratelimit, "deny list"), [Some("lasting".into())]);
    // A feed that repeats the rule changes nothing about it.
    with_comment(&ratelimit, "deny add 10.0.0.1 --for 1h", "feed");
    assert_eq!(comments(&ratelimit, "deny list"), [Some("lasting".into())]);
    with_comment(&ratelimit, "limit set 10.0.0.1 --packets 5/s --for 1s", "short");
    while ratelimit.json("deny list")[0]["source"] != "10.0.0.1" {}
    assert_eq!(comments(&ratelimit, "deny list"), [Some("lasting".into())]);
    // The next change removes what has ended.
    ratelimit.ok("deny add 10.0.0.9");
    assert_eq!(comments(&ratelimit, "deny list"), [Some("lasting".into()), None]);
    ratelimit.ok("detach --all");
}

#[test]
fn comments_of_a_file_are_kept_changed_and_saved() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    let file = |comment: &str| {
        format!(
            "interfaces = [\"eth0\"]\n[default]\npackets = \"9/s\"\ncomment = \"all\"\n\
             [[rule]]\nsources = [\"10.0.0.1\", \"10.0.0.0/24\"]\npolicy = \"deny\"\n{comment}"
        )
    };
    folder.write(&file("comment = \"one\"\n"));
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    assert_eq!(comments(&ratelimit, "deny list"), [Some("one".into()), Some("one".into())]);
    assert_eq!(comments(&ratelimit, "limit list"), [Some("all".into())]);
    let saved = ratelimit.ok("save");
    assert_eq!(saved.matches("comment = \"one\"").count(), 2, "{saved}");
    folder.write(&saved);
    assert!(daemon.line().ends_with("rules: 0 set, 0 deleted, 3 unchanged"));
    folder.write(&file("comment = \"two\"\n"));
    assert!(daemon.line().ends_with("rules: 2 set, 0 deleted, 1 unchanged"));
    assert_eq!(comments(&ratelimit, "deny list"), [Some("two".into()), Some("two".into())]);
    folder.write(&file(""));
    assert!(daemon.line().ends_with("rules: 2 set, 0 deleted, 1 unchanged"));
    assert_eq!(comments(&ratelimit, "deny list"), [None, None]);
    folder.write(&file(&format!("comment = \"{}\"\n", "x".repeat(65))));
    let line = daemon.line();
    assert!(line.contains("8:11: rule.comment: expected at most 64 bytes of text") || line.contains("8:11"), "{line}");
    assert!(line.contains("expected at most 64 bytes of text"), "{line}");
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn a_full_map_of_comments_refuses_limits_and_no_ban() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    let hosts: String = (0..262_144u32).map(|n| format!("11.{}.{}.{}\n", n >> 16, n >> 8 & 255, n & 255)).collect();
    ratelimit.ok_with("deny add - --comment feed", &hosts);
    // Its place is free for another, so the map is full again with this one.
    ratelimit.ok_with("deny del -", "11.0.0.0\n");
    ratelimit.ok("deny add 10.9.0.6 --for 10m --comment first");
    ratelimit.ok("deny add 10.0.0.1 10.0.0.2");
    let line = ratelimit.fails("limit set 10.0.0.1 10.0.0.2 10.0.0.3 --packets 5/s --comment more");
    assert!(line.contains("262144 rules have a comment, the maximum: nothing was changed"), "{line}");
    assert_eq!(ratelimit.json("limit list"), json!([]));
    // Packets can make other tools ban ever more addresses, so a ban acts without its comment.
    for (words, input) in [
        ("deny add 10.9.0.7 --for 1h --comment jail", None),
        ("deny add - --for 1h --comment jail", Some("10.9.0.8\n10.9.0.9\n")),
    ] {
        let text = input.map_or_else(|| ratelimit.ok(words), |input| ratelimit.ok_with(words, input));
        assert!(
            text.ends_with("  262144 rules have a comment, the maximum: the rule acts without its comment\n"),
            "{text}"
        );
    }
    Flood::of(Frame::udp([10, 9, 0, 7], 9)).send(&sandbox, 1);
    assert_eq!(ratelimit.json("status")["reasons"]["denied"]["packets"], 1);
    // A longer ban of another tool takes over the comment that is there. So the first tool does not end it.
    let text = ratelimit.ok("deny add 10.9.0.6 --for 1h --comment second --keep-longer");
    assert!(text.contains("the rule acts without its comment"), "{text}");
    ratelimit.ok("deny del 10.9.0.6 --comment first --if-exists");
    Flood::of(Frame::udp([10, 9, 0, 6], 9)).send(&sandbox, 1);
    assert_eq!(ratelimit.json("status")["reasons"]["denied"]["packets"], 2);
    ratelimit.ok("deny del 10.9.0.6 --comment second");
    Flood::of(Frame::udp([10, 9, 0, 6], 9)).send(&sandbox, 1);
    assert_eq!(ratelimit.json("status")["reasons"]["denied"]["packets"], 2);
    ratelimit.ok_with("deny add - --comment feed", "11.0.0.0\n");
    ratelimit.ok("deny del 10.9.0.7 --comment jail --if-exists");
    ratelimit.ok("deny del 10.9.0.7 10.9.0.8 10.9.0.9");
    ratelimit.ok_with("deny del -", "11.0.0.0\n");
    ratelimit.ok("deny add 10.0.0.1 --comment more");
    // Rules that repeat keep their comments. A list without the option replaces none.
    assert_eq!(ratelimit.ok_with("deny add -", &hosts), "262144 rules: deny\n");
    let all = ratelimit.ok("deny list");
    let with = |comment: &str| all.lines().filter(|line| line.ends_with(comment)).count();
    assert_eq!([with(" feed"), with(" more"), with(" command")], [262_143, 1, 2]);
    ratelimit.ok("detach --all");
}

#[test]
fn rules_are_deleted_by_their_comment() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    with_comment(&ratelimit, "deny add 10.0.0.1 10.0.0.2", "it's a \"job\"");
    with_comment(&ratelimit, "deny add 10.0.0.1 --service udp/53", "it's a \"job\"");
    with_comment(&ratelimit, "deny add 10.0.0.3", "it's");
    with_comment(&ratelimit, "allow add 10.0.0.4", "it's a \"job\"");
    let sources = || {
        let rules = ratelimit.json("deny list");
        rules.as_array().unwrap().iter().map(|rule| rule["source"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let deleted = |words: &str, comment: &str| {
        let mut command = ratelimit.command(words);
        ratelimit.output(command.args(["--comment", comment]))
    };
    // Another comment, and one prefix of two: nothing is deleted.
    for words in ["deny del 10.0.0.3", "deny del 10.0.0.1 10.0.0.3", "deny del --all --service tcp", "allow del --all"]
    {
        let comment = if words.starts_with("allow") { "it's" } else { "it's a \"job\"" };
        assert_eq!(deleted(words, comment).status, 1, "{words}");
        assert_eq!(sources(), ["10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.3"]);
    }
    assert_eq!(deleted("deny del --all --if-exists", "no such").status, 0);
    // A rule for all services has another service.
    let missing = |service: &str| deleted(&format!("deny del --all --service {service}"), "it's").stdout;
    let [of_port, of_all] = ["tcp/80", "udp"].map(missing);
    assert_eq!(of_port, "there is no rule deny with the comment \"it's\" for tcp/80\n");
    assert!(of_all.ends_with(" for udp\n"), "{of_all}");
    // An empty variable of a script is no wish to delete all.
    for words in ["deny del --all", "deny del 10.0.0.1"] {
        let output = deleted(words, "");
        assert!(output.status == 2 && output.stderr.contains("expected the text of a comment"), "{output:?}");
    }
    assert!(deleted("deny del", "it's").stderr.contains("required"));
    assert!(ratelimit.fails("deny del --all").contains("--comment"));
    let output = ratelimit.output(ratelimit.command("deny del - --comment it's").stdin(stdin("10.0.0.3\n")));
    assert_eq!((output.status, sources().len()), (0, 3), "{output:?}");
    assert_eq!(deleted("deny del 10.0.0.1", "it's a \"job\"").status, 0);
    assert_eq!(sources(), ["10.0.0.1", "10.0.0.2"]);
    let output = deleted("deny del --all", "it's a \"job\"");
    assert_eq!(output.stdout, "2 rules deleted: rule deny with the comment \"it's a \\\"job\\\"\"\n");
    assert_eq!((sources().len(), ratelimit.json("allow list").as_array().unwrap().len()), (0, 1));
    with_comment(&ratelimit, "deny add 10.0.0.1", "x");
    assert_eq!(ratelimit.json("deny del --all --comment x"), json!({"deleted": 1, "skipped": 0}));
    ratelimit.ok("detach --all");
}

#[test]
fn a_longer_rule_deny_can_be_kept() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    ratelimit.ok("deny add 10.0.0.1 --for 1d");
    ratelimit.ok("deny add 10.0.0.2");
    ratelimit.ok("deny add 10.0.0.3 --for 1m");
    with_comment(&ratelimit, "deny add 10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.4 --for 1h --keep-longer", "jail");
    let jail = || Some("jail".to_owned());
    assert_eq!(comments(&ratelimit, "deny list"), [None, None, jail(), jail()]);
    // A ban without an end is longer than each that ends.
    with_comment(&ratelimit, "deny add 10.0.0.1 10.0.0.2 --keep-longer", "jail");
    assert_eq!(comments(&ratelimit, "deny list"), [jail(), None, jail(), jail()]);
    let kept = ratelimit.json("deny add 10.0.0.1 10.0.0.5 --keep-longer --for 1d");
    let seen = |row: &Value| (row["source"].clone(), row["expires_in_seconds"].is_null(), row["replaced"].is_null());
    assert_eq!([seen(&kept[0]), seen(&kept[1])], [(json!("10.0.0.1"), true, true), (json!("10.0.0.5"), false, true)]);
    // The operator who gave no comment keeps the longer end of two, too.
    let text = ratelimit.ok("deny add 10.0.0.1 --keep-longer --for 1m");
    assert!(text.starts_with("10.0.0.1: deny, owners \"jail\", no comment (in 23h"), "{text}");
    assert!(ratelimit.fails("deny add - --keep-longer").contains("--keep-longer needs prefixes as arguments"));
    ratelimit.ok("detach --all");
}
