//! The file is the state: settings that it omits have their defaults.

use ratelimit_tests::{Daemon, Folder, Ratelimit, Sandbox};
use serde_json::json;

use crate::run::{FILE, limits};

/// Returns what `status` says about the file: text and JSON.
fn differences(ratelimit: &Ratelimit<'_>, folder: &Folder) -> (Vec<String>, serde_json::Value) {
    let begin = format!("differs from {}: ", folder.file().display());
    let text = ratelimit.ok("status");
    let lines = text.lines().filter_map(|line| line.strip_prefix(&begin)).map(str::to_owned).collect();
    (lines, ratelimit.json("status")["config"]["differences"].clone())
}

#[test]
fn settings_that_the_file_omits_get_their_defaults_and_are_named() {
    let sandbox = Sandbox::new();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    ratelimit.ok("attach eth0 --shadow --malformed pass --unknown 10k/s --capacity 20k/s --max-sources 5000");
    ratelimit.ok("limit set 10.0.1.0/24 --packets 7/s");
    folder.write(&format!("{FILE}[settings]\nmax-sources = 6000\n"));
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    let line = daemon.line();
    let changed = "rules: 2 set, 0 deleted, 0 unchanged; max-sources: 5000, now 6000; unknown: 10k/s, now off (default); malformed: pass, now drop (default); shadow: on, now off (default); capacity of eth0: 20k/s, now off (default)";
    assert!(line.ends_with(changed), "{line}");
    let status = ratelimit.json("status");
    assert_eq!(
        [&status["shadow"]["everything"], &status["malformed"], &status["unknown"], &status["sources"]["max"]],
        [&json!(false), &json!("drop"), &json!(null), &json!(6_000)]
    );
    assert_eq!(status["interfaces"][0].get("capacity"), None);
    // Rules of commands stay.
    assert_eq!(limits(&ratelimit).len(), 3);
    assert_eq!(differences(&ratelimit, &folder), (Vec::new(), json!([])));
    daemon.end();
    ratelimit.ok("detach --all");
}

/// A change of sizes by omission could forget sources. So it needs a command, or a key of the file.
#[test]
fn a_file_that_omits_sizes_changes_none() {
    let sandbox = Sandbox::new();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    let other = Ratelimit::other(&sandbox);
    let sizes = || {
        let status = ratelimit.json("status");
        [status["sources"]["max"].as_u64().unwrap(), status["front"]["cells"].as_u64().unwrap()]
    };
    // Those of an instance that another version has attached stay too.
    other.ok("attach eth0 --max-sources 5000 --cells 1024");
    folder.write(FILE);
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    assert_eq!(sizes(), [5_000, 1_024]);
    ratelimit.ok("set --max-sources 6000");
    assert_eq!(differences(&ratelimit, &folder), (Vec::new(), json!([])));
    // What is given changes, and stays when it is removed.
    for (settings, expected) in [("cells = 2048", [6_000, 2_048]), ("sample = false", [6_000, 2_048])] {
        folder.write(&format!("{FILE}[settings]\n{settings}\n"));
        daemon.line();
        assert_eq!(sizes(), expected, "{settings}");
    }
    // A size of the file holds against commands.
    folder.write(&format!("{FILE}[settings]\nmax-sources = 7000\n"));
    daemon.line();
    ratelimit.ok("set --max-sources 8000");
    assert_eq!(differences(&ratelimit, &folder).0, ["max-sources is 8000, not 7000"]);
    ratelimit.ok("reload");
    daemon.line();
    assert_eq!(sizes(), [7_000, 2_048]);
    daemon.end();
    ratelimit.ok("detach --all");
    // A new instance of the daemon is sized for the machine.
    sandbox.victim_namespace().set_memory(2_000_000);
    folder.write(FILE);
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    assert_eq!(sizes(), [262_144, 131_072]);
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn status_names_what_commands_changed_and_a_reload_restores_it() {
    let sandbox = Sandbox::new();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    sandbox.ip("link add eth1 type veth");
    folder.write(&format!("{FILE}[settings]\nunknown = \"20k/s\"\n[interface.eth0]\ncapacity = \"30k/s\"\n"));
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    assert_eq!(differences(&ratelimit, &folder), (Vec::new(), json!([])));
    ratelimit.ok("attach eth0 --unknown 10k/s --replies off --capacity 40k/s");
    ratelimit.ok("attach eth1");
    ratelimit.ok("limit set default --packets 7/s");
    let deleted = ratelimit.ok("limit del 10.0.0.0/24 --service udp/53");
    assert_eq!(
        deleted.lines().nth(1),
        Some("a daemon runs: its file decides again at the next reload, so change the file, too")
    );
    let (lines, rows) = differences(&ratelimit, &folder);
    let settings =
        ["replies is off, not 100/s", "unknown is 10k/s, not 20k/s", "the capacity of eth0 is 40k/s, not 30k/s"];
    assert_eq!(lines[..3], settings);
    let (attached, replaced) =
        ("eth1 is attached by command, not listed", "the rule for default is 7/s (set by command), not 1000/s");
    let deleted = "the rule for 10.0.0.0/24 udp/53 is deleted by command, not 5/s";
    assert_eq!(lines[3..], [attached, replaced, deleted]);
    assert_eq!(rows[1], json!({"name": "unknown", "running": "10k/s", "file": "20k/s"}));

    let restored = "rules: 1 set, 0 deleted, 0 unchanged; added 10.0.0.0/24 udp/53 (5/s); unknown: 10k/s, now 20k/s; replies: off, now 100/s (default); capacity of eth0: 40k/s, now 30k/s; rules of the file replaced by command: default\n";
    let answer = ratelimit.ok("reload");
    assert!(answer.ends_with(restored), "{answer}");
    daemon.line();
    // The rule of the command stays.
    assert_eq!(differences(&ratelimit, &folder).0, [attached, replaced]);
    // A file that was refused says nothing about the one in force.
    folder.write(&format!("{FILE}[[rule]]\nsource = \"192.0.2.77\"\npolicy = \"deny\"\n[settings]\nfront = false\n"));
    daemon.line();
    assert_eq!(differences(&ratelimit, &folder).0, [attached, replaced]);
    let refused = format!("degraded: {} was refused at the last reload: ", folder.file().display());
    assert!(ratelimit.ok("status").contains(&refused));
    assert_eq!(ratelimit.json("status")["config"]["degraded"], true);
    let doctor = ratelimit.run("doctor").stdout;
    assert!(doctor.contains(" was refused at the last reload: "), "{doctor}");
    folder.write(FILE);
    daemon.line();
    assert!(!ratelimit.ok("status").contains(&refused));
    daemon.end();
    assert_eq!(ratelimit.json("status").get("config"), None);
    ratelimit.ok("detach --all");
}

#[test]
fn a_file_that_omits_a_setting_which_cannot_change_is_refused_with_the_line_to_write() {
    for (option, key) in [("--ipv6-prefix 48", "ipv6-prefix = 48"), ("--front off", "front = false")] {
        let sandbox = Sandbox::new();
        let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
        ratelimit.ok(&format!("attach eth0 {option} --malformed pass"));
        folder.write(FILE);
        let run = format!("run -c {}", folder.file().display());
        let line = ratelimit.fails(&run);
        let way_out = format!("write `{key}` into [settings], or run `ratelimit detach --all` first");
        assert!(line.starts_with("ratelimit: the file omits ") && line.ends_with(&way_out), "{line}");
        // Nothing has changed.
        assert!(limits(&ratelimit).is_empty());
        assert_eq!(ratelimit.json("status")["malformed"], "pass");
        folder.write(&format!("{FILE}[settings]\n{key}\n"));
        let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
        assert!(daemon.line().ends_with("2 set, 0 deleted, 0 unchanged; malformed: pass, now drop (default)"));
        folder.write(FILE);
        let line = daemon.line();
        assert!(line.starts_with("ratelimit: nothing was changed: the file omits "), "{line}");
        daemon.end();
        ratelimit.ok("detach --all");
    }
}

#[test]
fn of_a_file_with_very_many_rules_status_gives_their_number() {
    let sandbox = Sandbox::new();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    let rule =
        |number: u32| format!("[[rule]]\nsource = \"10.7.{}.{}\"\npolicy = \"deny\"\n", number / 256, number % 256);
    folder.write(&format!("interfaces = [\"eth0\"]\n{}", (0..1_001).map(rule).collect::<String>()));
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    assert_eq!(differences(&ratelimit, &folder), (Vec::new(), json!([])));
    ratelimit.ok("deny del 10.7.0.9");
    assert_eq!(differences(&ratelimit, &folder).0, ["the number of its rules in force is 1000, not 1001"]);
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn a_saved_file_agrees_with_the_state() {
    let sandbox = Sandbox::new();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    ratelimit.ok("attach eth0 --shadow --malformed pass --unknown 10k/s --capacity 20k/s --cells 4096 --sample off");
    ratelimit.ok("deny add 10.1.0.0/16 10.2.0.0/16 --comment why");
    folder.write(&ratelimit.ok("save"));
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    let line = daemon.line();
    assert!(line.ends_with("in force, rules: 2 set, 0 deleted, 0 unchanged"), "{line}");
    assert_eq!(differences(&ratelimit, &folder), (Vec::new(), json!([])));
    // The rules are those of the file now, which can change and delete them.
    let saved = ratelimit.ok("save");
    folder.write(&saved.replace("10.2.0.0/16", "10.3.0.0/16"));
    let line = daemon.line();
    let changed = "added 10.3.0.0/16 (deny); deleted 10.2.0.0/16 (was deny)";
    assert!(line.ends_with(&format!("rules: 1 set, 1 deleted, 1 unchanged; {changed}")), "{line}");
    let denied = ratelimit.json("deny list");
    let row = |source: &str| denied.as_array().unwrap().iter().find(|row| row["source"] == source).cloned();
    assert!(row("10.2.0.0/16").is_none());
    for source in ["10.1.0.0/16", "10.3.0.0/16"] {
        let row = row(source).unwrap();
        assert_eq!((&row["origin"], &row["comment"]), (&json!("config"), &json!("why")), "{row}");
    }
    daemon.end();
    ratelimit.ok("detach --all");
}
