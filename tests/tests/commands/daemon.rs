//! `run`, `reload`, `check` and `save`: a configuration file in force.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use ratelimit_tests::{Daemon, Folder, Ratelimit, Sandbox};
use rustix::process::Signal;
use serde_json::json;

pub(super) fn limits(ratelimit: &Ratelimit<'_>) -> Vec<String> {
    let text = |row: &serde_json::Value, key: &str| row[key].as_str().unwrap_or("-").to_owned();
    let list = ratelimit.json("limit list");
    let row = |row| {
        format!("{} {} {} {}", text(row, "source"), text(row, "service"), text(row, "packets"), text(row, "origin"))
    };
    list.as_array().unwrap().iter().map(row).collect()
}

const PINS: &str = "/sys/fs/bpf/ratelimit";

pub(super) const FILE: &str = "interfaces = [\"eth0\"]\n[default]\npackets = \"1000/s\"\n[[rule]]\nsource = \"10.0.0.0/24\"\nservice = \"udp/53\"\npackets = \"5/s\"\n";

#[test]
fn a_file_is_in_force_is_followed_and_stays_without_the_daemon() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    folder.write(FILE);
    let file = folder.file();
    let shown = file.display();
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &file);
    assert_eq!(
        daemon.line(),
        format!("ratelimit: {shown}: in force, rules: 2 set, 0 deleted, 0 unchanged; attached to eth0")
    );
    assert_eq!(limits(&ratelimit), ["default any 1000/s config", "10.0.0.0/24 udp/53 5/s config"]);

    // By itself, when the file changes.
    ratelimit.ok("limit set 10.0.1.0/24 --packets 7/s");
    folder.write(&FILE.replace("5/s", "6/s").replace("10.0.0.0", "10.0.2.0"));
    assert_eq!(daemon.line(), format!("ratelimit: {shown}: read again, rules: 1 set, 1 deleted, 1 unchanged"));
    let now = ["default any 1000/s config", "10.0.1.0/24 any 7/s command", "10.0.2.0/24 udp/53 6/s config"];
    assert_eq!(limits(&ratelimit), now);

    // What is wrong changes nothing.
    folder.write("interfaces = [\"eth0\"]\n[default]\npackets = \"many\"\n");
    let problem =
        format!("{shown}:3:11: \"many\": expected packets per s, m, h or d, such as 1000/s, 1.5k/s, 500/h or 3/m");
    assert_eq!(daemon.line(), format!("ratelimit: nothing was changed: {problem}"));
    assert_eq!(ratelimit.fails("reload"), format!("ratelimit: nothing was changed: {problem}"));
    assert_eq!(daemon.line(), format!("ratelimit: nothing was changed: {problem}"));
    assert_eq!(limits(&ratelimit), now);

    // Nor does a file that is emptied before it is written anew, as some editors and scripts do.
    fs::write(&file, "").unwrap();
    let nothing = "the file says nothing: write interfaces = [] if nothing is to be attached or limited";
    assert_eq!(daemon.line(), format!("ratelimit: nothing was changed: {shown}:1:1: {nothing}"));
    assert_eq!(limits(&ratelimit), now);
    assert_eq!(ratelimit.json("status")["interfaces"][0]["name"], "eth0");

    // Who has set a rule by command keeps it.
    folder.write(&FILE.replace("10.0.0.0/24\"\nservice = \"udp/53\"", "10.0.1.0/24\""));
    let line = "read again, rules: 0 set, 1 deleted, 1 unchanged; set otherwise by command: 10.0.1.0/24";
    assert_eq!(daemon.line(), format!("ratelimit: {shown}: {line}"));
    daemon.process.signal(Signal::HUP);
    let line = "read again, rules: 0 set, 0 deleted, 1 unchanged; set otherwise by command: 10.0.1.0/24";
    assert_eq!(daemon.line(), format!("ratelimit: {shown}: {line}"));
    ratelimit.ok("limit del 10.0.1.0/24");
    assert_eq!(ratelimit.ok("reload"), format!("{shown}: read again, rules: 1 set, 0 deleted, 1 unchanged\n"));
    assert_eq!(daemon.line(), format!("ratelimit: {shown}: read again, rules: 1 set, 0 deleted, 1 unchanged"));

    daemon.end();
    assert_eq!(limits(&ratelimit), ["default any 1000/s config", "10.0.1.0/24 any 5/s config"]);
    assert_eq!(ratelimit.json("status")["interfaces"][0]["name"], "eth0");
    let none = format!("ratelimit: no daemon runs for {PINS}: start one with `ratelimit run -c FILE`");
    assert_eq!(ratelimit.fails("reload"), none);
    assert!(!sandbox.victim(|| Path::new("/run/ratelimit").exists()));

    // The next one finds everything as it should be.
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &file);
    assert_eq!(daemon.line(), format!("ratelimit: {shown}: in force, rules: 0 set, 0 deleted, 2 unchanged"));
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn what_rules_do_not_ask_for_stays_when_they_go() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    ratelimit.ok("attach eth0 --shadow --malformed pass --strangers 5k/s --capacity 9k/s");
    folder.write(&FILE.replace(
        "packets = \"5/s\"",
        "packets = \"5/s\"\nthrottle = \"elastic\"\n[interface.eth0]\ncapacity = \"8k/s\"",
    ));
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    let told = |ratelimit: &Ratelimit<'_>| {
        let status = ratelimit.json("status");
        (
            status["shadow"]["everything"].clone(),
            status["malformed"].clone(),
            status["interfaces"][0]["capacity"].clone(),
        )
    };
    assert_eq!(told(&ratelimit), (json!(true), json!("pass"), json!(8_000)));
    folder.write("interfaces = [\"eth0\"]\n");
    let line = daemon.line();
    let why = "everything stays in shadow, as it was told before: shadow = false below [settings] ends that";
    assert!(line.ends_with(why), "{line}");
    assert_eq!(told(&ratelimit), (json!(true), json!("pass"), json!(8_000)));
    assert!(limits(&ratelimit).is_empty());
    folder.write("interfaces = [\"eth0\"]\n[settings]\nshadow = false\nmax-sources = 5000\n");
    let line = daemon.line();
    assert!(line.contains("0 unchanged; settings changed: max-sources, shadow"), "{line}");
    assert_eq!(told(&ratelimit), (json!(false), json!("pass"), json!(8_000)));
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn a_session_that_kept_rules_deny_is_named_and_they_stay() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    folder.write(FILE);
    ratelimit.ok("attach eth0");
    ratelimit.ok("deny add 10.9.0.2");
    ratelimit.ok("detach eth0");
    let mut command = ratelimit.command(&format!("run -c {}", folder.file().display()));
    let output = ratelimit.output(command.env("SSH_CONNECTION", "10.9.0.2 50000 10.9.0.1 22"));
    let line = "ratelimit: an SSH session comes from 10.9.0.2, which the rules that were kept deny: `ratelimit deny list` shows them, `ratelimit run --force` attaches all the same\n";
    assert_eq!((output.status, output.stderr.as_str()), (2, line));
    assert_eq!(ratelimit.json("deny list")[0]["source"], "10.9.0.2");
    assert!(limits(&ratelimit).is_empty());
    ratelimit.ok("detach --all");
}

#[test]
fn folders_of_others_are_left_alone() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    folder.write(FILE);
    // A name that somebody else's folder has, and one of ours that somebody else has made.
    sandbox.victim(|| {
        for folder in ["/run/others", "/run/ratelimit-others"] {
            fs::create_dir(folder).unwrap();
            fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
        }
    });
    let run = format!("run -c {} --pins /sys/fs/bpf/others", folder.file().display());
    let mut daemon = Daemon::by(&sandbox, ratelimit.command(&run));
    daemon.line();
    let mode = |folder: &str| sandbox.victim(|| fs::metadata(folder).unwrap().permissions().mode() & 0o777);
    let entries = |folder: &str| sandbox.victim(|| fs::read_dir(folder).unwrap().count());
    assert_eq!((mode("/run/others"), entries("/run/others")), (0o755, 0));
    assert_eq!((mode("/run/ratelimit-others"), mode("/run/ratelimit-others/socket")), (0o755, 0o660));
    daemon.end();
    assert_eq!((entries("/run/others"), entries("/run/ratelimit-others")), (0, 0));
    ratelimit.ok("detach --all --pins /sys/fs/bpf/others");
}

#[test]
fn there_is_one_daemon_for_an_instance() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    folder.write(FILE);
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    assert_eq!(
        ratelimit.fails(&format!("run -c {}", folder.file().display())),
        format!("ratelimit: a daemon runs for {PINS} already: `ratelimit reload` has it read its file again")
    );
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn what_fails_at_the_start_leaves_nothing() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    for (text, expected) in [
        ("interfaces = [\"eth9\"]", "no interface \"eth9\""),
        ("interfaces = [\"eth0\"]\n[[rule]]\nsource = \"10.0.0.1\"\n", ":2:1: [[rule]]: a limit needs packets"),
        ("interfaces = [\"lo\"]\n[default]\npackets = \"1/s\"", "lo: its driver does not support native XDP"),
    ] {
        folder.write(text);
        let line = ratelimit.fails(&format!("run -c {}", folder.file().display()));
        assert!(line.contains(expected), "{line}");
        assert!(sandbox.pins().is_empty(), "{text}");
    }
    let line = ratelimit.fails("run -c /does/not/exist");
    assert!(line.contains("/does/not/exist"), "{line}");
}

#[test]
fn a_file_is_checked_without_an_instance() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    folder.write(FILE);
    let check = format!("check {}", folder.file().display());
    assert_eq!(ratelimit.ok(&check), format!("{}: good, with 1 interface and 2 rules\n", folder.file().display()));
    folder.write("[default]\npacket = \"1/s\"\nburst = -1\n");
    let output = ratelimit.run(&check);
    let shown = folder.file().display().to_string();
    assert_eq!((output.status, output.stderr.as_str()), (1, ""));
    assert_eq!(
        output.stdout,
        format!("{shown}:2:1: packet: no such key here: packets is meant?\n{shown}:3:9: -1: expected a whole number\n")
    );
    let output = ratelimit.run(&format!("{check} --json"));
    let problems: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(
        problems["problems"][0],
        json!({"line": 2, "column": 1, "found": "packet", "message": "no such key here: packets is meant?"})
    );
    assert_eq!(ratelimit.run("check /does/not/exist").status, 2);
    assert!(sandbox.pins().is_empty());
}

#[test]
fn a_limit_is_unchanged_in_whatever_order_its_parents_are_given() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    folder.write(
        "interfaces = [\"eth0\"]\n[default]\npackets = \"1000/s\"\nparent = [\"all=500k/s\", \"/48=30k/s\", \"/24=20k/s\"]\n",
    );
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    assert!(daemon.line().ends_with("rules: 1 set, 0 deleted, 0 unchanged; attached to eth0"));
    assert!(ratelimit.ok("reload").ends_with("rules: 0 set, 0 deleted, 1 unchanged\n"));
    daemon.line();
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn what_is_saved_is_good_and_gives_the_same_again() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 10/m,500/h --algorithm sliding-window --over-limit reject --capacity 5k/s --strangers 9k/s --malformed pass");
    ratelimit.ok("limit set 10.0.0.0/8 --packets 1.5k/s --bytes 12.5MB/s --burst 77 --throttle soft=10% --ban 90s --ban-after 3 --ban-cap 125m");
    ratelimit
        .ok("limit set 10.1.0.0/16 --packets 1000/s --parent /24=20k/s --parent all=500k/s,1GB/s --throttle elastic");
    ratelimit.ok("limit set default --service udp/53 --packets 0.5/s --algorithm leaky-bucket");
    ratelimit.ok("limit set 2001:db8::/32 --service tcp-syn --packets 3/d --algorithm sliding-log --over-limit shadow");
    ratelimit.ok("limit set 2001:db8::/48 --parent interface=1MB/s");
    ratelimit.ok("deny add 192.0.2.1 --for 7d");
    ratelimit.ok("allow add 192.0.2.0/24 --service icmp");
    ratelimit.ok("cost set tcp-syn 10");
    ratelimit.ok("cost set udp/53 2");
    let saved = ratelimit.ok("save");
    let document = ratelimit.json("save");
    assert_eq!(document["interfaces"], json!(["eth0"]));
    assert_eq!(document["settings"]["strangers"], "9000/s");
    assert_eq!(document["service"]["udp/53"]["cost"], 2);
    // A moment is text, as the file has it to the day.
    let rules = document["rule"].as_array().unwrap();
    let denied = rules.iter().find(|rule| rule["source"] == "192.0.2.1").unwrap();
    let until = denied["until"].as_str().unwrap();
    assert!(denied["policy"] == "deny" && saved.contains(&format!("until = {}", &until[..10])), "{denied} {saved}");
    let list = |ratelimit: &Ratelimit<'_>| {
        ["limit list", "allow list", "deny list", "cost list"].map(|list| {
            let mut list = ratelimit.json(list);
            for row in list.as_array_mut().unwrap() {
                row.as_object_mut().unwrap().remove("origin");
                row.as_object_mut().unwrap().remove("expires_in");
            }
            list
        })
    };
    let before = list(&ratelimit);
    ratelimit.ok("detach --all");

    let folder = Folder::new();
    folder.write(&saved);
    ratelimit.ok(&format!("check {}", folder.file().display()));
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    let line = daemon.line();
    assert!(line.ends_with("in force, rules: 8 set, 0 deleted, 0 unchanged; attached to eth0"), "{line}");
    assert_eq!(list(&ratelimit), before);
    assert_eq!(ratelimit.ok("save"), saved);
    assert!(ratelimit.ok("reload").ends_with("rules: 0 set, 0 deleted, 8 unchanged\n"));
    daemon.line();
    daemon.end();
    ratelimit.ok("detach --all");
}
