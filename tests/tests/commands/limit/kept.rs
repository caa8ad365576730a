//! `limit set` on a limit that exists: it changes what is given, and keeps the rest.

use std::{fs, io::Write as _};

use ratelimit_tests::{Daemon, Folder, Ratelimit, Sandbox, flat};
use serde_json::json;

#[test]
fn a_new_rate_keeps_the_other_options_of_each_kind_of_target() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    for target in ["default", "10.0.0.1", "10.1.0.0/16", "2001:db8::/48", "10.0.0.1 --service udp/53"] {
        let set = |options: &str| ratelimit.ok(&format!("limit set {target} {options}"));
        let name = target.replace(" --service", "");
        set("--packets 50/s --bytes 1MB/s --burst 70 --over-limit reject --ban 10m");
        assert_eq!(
            set("--packets 20/s"),
            format!(
                "{name}: 20/s, 1MB/s per source, burst 70, reject, ban 10m \
                 (replaced: 50/s, 1MB/s, reject, ban 10m)\n"
            )
        );
        assert_eq!(set("--packets 20/s"), format!("{name}: 20/s, 1MB/s per source, burst 70, reject, ban 10m\n"));
        assert!(set("--ban off --bytes off").starts_with(&format!("{name}: 20/s per source, burst 70, reject (")));
        assert!(set("--burst auto").starts_with(&format!("{name}: 20/s per source, burst 20, reject")));
        // Without an explicit burst, it follows the rate.
        assert!(set("--packets 30/s").starts_with(&format!("{name}: 30/s per source, burst 30, reject (")));
        let changed = flat(ratelimit.json(&format!("limit set {target} --ban 1h")));
        assert_eq!(
            [&changed["packets"], &changed["over_limit"], &changed["ban"]["seconds"], &changed["replaced"]],
            [&json!("30/s"), &json!("reject"), &json!(3_600), &json!("30/s, reject")]
        );
        assert!(set("--packets 5/s --replace").starts_with(&format!("{name}: 5/s per source, burst 5 (replaced: ")));
    }
    ratelimit.ok("detach --all");
}

#[test]
fn what_is_not_valid_with_the_kept_part_changes_nothing_and_names_it() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    ratelimit.ok("limit set 10.0.0.1 --packets 5/s --burst 9");
    let before = ratelimit.json("limit list");
    let line = ratelimit.fails("limit set 10.0.0.1 --algorithm sliding-log");
    assert!(line.ends_with("The limit keeps --burst 9: --burst auto takes it away, --replace starts anew"), "{line}");
    let line = ratelimit.fails("limit set 10.0.0.1 --packets off");
    assert!(line.ends_with("nothing would be left of the limit: `ratelimit limit del` deletes it"), "{line}");
    let line = ratelimit.fails("limit set 10.0.0.1");
    assert!(line.contains("a limit needs --packets RATE"), "{line}");
    let line = ratelimit.fails("limit set 10.0.0.2 --ban 10m");
    assert!(line.contains("need a limit"), "{line}");
    assert_eq!(ratelimit.json("limit list"), before);
    assert_eq!(
        ratelimit.ok("limit set 10.0.0.1 --algorithm sliding-log --burst auto"),
        "10.0.0.1: 5/s per source, sliding-log (replaced: 5/s)\n"
    );
    ratelimit.ok("detach --all");
}

#[test]
fn a_temporary_limit_keeps_its_end_and_what_it_covers() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    ratelimit.ok("limit set 10.0.0.1 --packets 5/s --ban 1h");
    let text = ratelimit.ok("limit set 10.0.0.1 --packets 7/s --for 2h");
    assert_eq!(text, "10.0.0.1: 7/s per source, burst 7, ban 1h, expires in 2h, then 5/s, ban 1h again\n");
    let text = ratelimit.ok("limit set 10.0.0.1 --packets 8/s");
    assert!(text.starts_with("10.0.0.1: 8/s per source, burst 8, ban 1h, expires in 1h59m"), "{text}");
    assert!(text.contains(", then 5/s, ban 1h again (replaced: 7/s, ban 1h)"), "{text}");
    assert_eq!(ratelimit.json("limit list")[0]["covers"], "5/s, ban 1h");
    let text = ratelimit.ok("limit set 10.0.0.1 --for never");
    let before = "(replaced: 8/s, ban 1h, expires in 1h59m, and 5/s, ban 1h below it)";
    assert_eq!(text, format!("10.0.0.1: 8/s per source, burst 8, ban 1h {before}\n"));
    // A deny above a limit is no limit, so the change goes by the covered one.
    ratelimit.ok("deny add 10.0.0.1 --for 1h");
    let text = ratelimit.ok("limit set 10.0.0.1 --packets 9/s");
    assert_eq!(text, "10.0.0.1: 9/s per source, burst 9, ban 1h (replaced: deny, and 8/s, ban 1h below it)\n");
    ratelimit.ok("detach --all");
}

#[test]
fn a_list_changes_each_limit_and_keeps_its_rest() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    ratelimit.ok("limit set 10.0.0.1 --packets 5/s --ban 1h");
    ratelimit.ok("limit set 10.0.0.2 --packets 5/s --bytes 1MB/s");
    let list = "10.0.0.1\n10.0.0.2\n10.0.0.3\n";
    let text = ratelimit.ok_with("limit set - --packets 9/s", list);
    assert_eq!(
        text,
        "3 rules: 9/s per source, burst 9 (2 with parts of the limit before) (replaced 2 other rules)\n\
         \x20 10.0.0.1: 9/s per source, burst 9, ban 1h\n\
         \x20 10.0.0.2: 9/s, 1MB/s per source, burst 9\n\
         \x20 10.0.0.1: was 5/s, ban 1h\n\
         \x20 10.0.0.2: was 5/s, 1MB/s\n"
    );
    let before = ratelimit.json("limit list");
    let output = ratelimit.run_with("limit set - --packets 9/m,50/h", list);
    let lines: Vec<&str> = output.stderr.lines().collect();
    assert!(
        lines[0].starts_with("ratelimit: line 2: ") && lines[0].contains("The limit keeps --bytes 1MB/s"),
        "{output:?}"
    );
    assert_eq!(lines[1], "ratelimit: 1 of 3 lines cannot be changed: nothing was changed, --skip-bad skips them");
    assert_eq!((output.status, lines.len(), ratelimit.json("limit list")), (2, 2, before));
    // Options that need a limit apply to lines with one.
    let output = ratelimit.run_with("limit set - --over-limit reject", "10.0.0.1\n10.0.0.9\n");
    assert!(output.stderr.contains("line 2: 10.0.0.9 has no limit to change"), "{output:?}");
    ratelimit.ok_with("limit set - --over-limit reject", "10.0.0.1\n");
    assert_eq!(ratelimit.ok_with("limit set - --packets 9/m,50/h --replace", list).lines().count(), 4);
    assert_eq!(ratelimit.json("limit list")[0]["policy"]["ban"], json!(null));
    ratelimit.ok("detach --all");
}

#[test]
fn attach_changes_the_default_limit_as_limit_set_does() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 50/s --ban 10m");
    let text = ratelimit.ok("attach eth0 --packets 60/s");
    assert!(text.contains("default: 60/s per source, burst 60, ban 10m (replaced: 50/s, ban 10m)\n"), "{text}");
    let line = ratelimit.fails("attach eth0 --parent all=1M/s");
    assert!(line.ends_with("--ban off takes it away, `ratelimit limit set default --replace …` starts anew"), "{line}");
    ratelimit.ok("detach --all");
}

#[test]
fn every_way_to_remove_an_allow_needs_force_except_deleting_it() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    ratelimit.ok("attach eth0");
    let allows = || ratelimit.json("allow list").as_array().unwrap().len();
    // A temporary allow.
    ratelimit.ok("allow add 10.0.0.1 --for 1h");
    for words in ["limit set 10.0.0.1 --packets 5/s", "limit set 10.0.0.1 --packets 5/s --for 1h", "deny add 10.0.0.1"]
    {
        assert!(ratelimit.fails(words).contains("10.0.0.1 has the rule allow"), "{words}");
        let many = words.replace("10.0.0.1", "-");
        assert_eq!(ratelimit.run_with(&many, "10.0.0.1\n").status, 2, "{many}");
    }
    assert_eq!(ratelimit.ok("allow del 10.0.0.1"), "10.0.0.1: no longer has the rule allow\n");
    // An allow below a temporary deny.
    ratelimit.ok("allow add 10.0.0.2");
    ratelimit.ok("deny add 10.0.0.2 --for 1h --force");
    for words in ["deny add 10.0.0.2", "limit set 10.0.0.2 --packets 5/s"] {
        assert!(ratelimit.fails(words).contains("10.0.0.2 has the rule allow"), "{words}");
    }
    ratelimit.ok("deny add 10.0.0.2 --for 2h");
    ratelimit.ok("deny del 10.0.0.2");
    assert_eq!(allows(), 1);
    ratelimit.ok("deny add 10.0.0.2 --for 1h --force");
    let both = ratelimit.ok("limit set 10.0.0.2 --packets 5/s --force");
    assert!(both.contains("(replaced: deny, and allow below it)"), "{both}");
    // A rule inside an allowed prefix decides, and says so.
    ratelimit.ok("allow add 10.2.0.0/16");
    for (words, told) in [
        ("limit set 10.2.0.9 --packets 5/s", true),
        ("deny add 10.2.0.0/16 --service udp", true),
        ("deny add 10.2.0.0/15", false),
        ("allow add 10.2.0.8", false),
    ] {
        let text = ratelimit.ok(words);
        assert_eq!(
            text.contains("  inside 10.2.0.0/16, which has the rule allow: that no longer applies to"),
            told,
            "{text}"
        );
    }
    ratelimit.ok("allow del 10.2.0.0/16 10.2.0.8");
    ratelimit.ok("limit del 10.0.0.2");
    ratelimit.ok("allow add 10.0.0.2");
    // The file is the state, and names what it removes.
    folder.write("interfaces = [\"eth0\"]\nallow = [\"10.0.0.3\", \"10.0.0.4\"]\n[default]\npackets = \"5/s\"\n");
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    folder.write(
        "interfaces = [\"eth0\"]\n[default]\npackets = \"6/s\"\n[[rule]]\nsource = \"10.0.0.4\"\npolicy = \"deny\"\n",
    );
    let line = daemon.line();
    assert!(
        line.ends_with(
            "rules: 2 set, 1 deleted, 0 unchanged; replaced default (was 5/s), 10.0.0.4 (was allow); \
             allow removed from 10.0.0.3"
        ),
        "{line}"
    );
    folder.write(
        "interfaces = [\"eth0\"]\n[default]\npackets = \"6/s\"\n[[rule]]\nsource = \"10.0.0.4\"\npackets = \"7/s\"\n",
    );
    daemon.line();
    folder.write("interfaces = [\"eth0\"]\n");
    daemon.line();
    assert_eq!(allows(), 1);
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn reload_names_replaced_rules_in_json() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    let file = |packets: u32| {
        let rules = (1..=30).map(|host| format!("[[rule]]\nsource = \"10.0.0.{host}\"\npackets = \"{packets}/s\"\n"));
        format!("interfaces = [\"eth0\"]\n{}", rules.collect::<String>())
    };
    folder.write(&file(5));
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    // The daemon reads a file when it is closed. So this change waits for the command.
    let mut open = fs::File::create(folder.file()).unwrap();
    open.write_all(file(6).as_bytes()).unwrap();
    let answer = ratelimit.json("reload");
    assert_eq!(answer["replaced"].as_array().unwrap().len(), 30);
    assert_eq!(answer["replaced"][0], json!({"rule": "10.0.0.1", "before": "5/s"}));
    assert_eq!(answer["removed_allows"], json!([]));
    let message = answer["message"].as_str().unwrap();
    assert!(message.ends_with("10.0.0.20 (was 5/s) and 10 more, which `ratelimit reload --json` names"), "{message}");
    daemon.line();
    drop(open);
    assert!(daemon.line().ends_with("rules: 0 set, 0 deleted, 30 unchanged"));
    daemon.end();
    ratelimit.ok("detach --all");
}
