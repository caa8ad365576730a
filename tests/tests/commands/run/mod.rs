//! `run`: a daemon with its configuration file. Changes of the file are in `reload`.

mod awaited;
pub(crate) mod callers;
mod changes;
mod crowdsec;
mod footprint;
mod lost;
mod manager;
mod routes;
mod service;
mod state;
mod stops;
pub(crate) mod watch;

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use ratelimit_tests::{Daemon, Folder, Ratelimit, Sandbox, flat};
use rustix::process::Signal;

use crate::PINS;

pub(crate) fn limits(ratelimit: &Ratelimit<'_>) -> Vec<String> {
    let text = |row: &serde_json::Value, key: &str| row[key].as_str().unwrap_or("-").to_owned();
    let list = ratelimit.json("limit list");
    let row = |row| {
        format!(
            "{} {} {} {}",
            text(row, "source"),
            text(row, "service"),
            text(&flat(row.clone()), "packets"),
            text(row, "origin")
        )
    };
    list.as_array().unwrap().iter().map(row).collect()
}

pub(crate) const FILE: &str = "interfaces = [\"eth0\"]\n[default]\npackets = \"1000/s\"\n[[rule]]\nsource = \"10.0.0.0/24\"\nservice = \"udp/53\"\npackets = \"5/s\"\n";

#[test]
fn a_file_is_applied_followed_and_stays_applied_without_the_daemon() {
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

    // The daemon reads the file again when it changes.
    ratelimit.ok("limit set 10.0.1.0/24 --packets 7/s");
    folder.write(&FILE.replace("5/s", "6/s").replace("10.0.0.0", "10.0.2.0"));
    let changed = "added 10.0.2.0/24 udp/53 (6/s); deleted 10.0.0.0/24 udp/53 (was 5/s)";
    assert_eq!(daemon.line(), format!("ratelimit: {shown}: reloaded, rules: 1 set, 1 deleted, 1 unchanged; {changed}"));
    let now = ["default any 1000/s config", "10.0.1.0/24 any 7/s command", "10.0.2.0/24 udp/53 6/s config"];
    assert_eq!(limits(&ratelimit), now);

    // An invalid file changes nothing.
    folder.write("interfaces = [\"eth0\"]\n[default]\npackets = \"many\"\n");
    let problem =
        format!("{shown}:3:11: \"many\": expected packets per s, m, h or d, such as 1000/s, 1.5k/s, 500/h or 3/m");
    assert_eq!(daemon.line(), format!("ratelimit: nothing was changed: {problem}"));
    assert_eq!(ratelimit.fails("reload"), format!("ratelimit: nothing was changed: {problem}"));
    assert_eq!(daemon.line(), format!("ratelimit: nothing was changed: {problem}"));
    assert_eq!(limits(&ratelimit), now);

    // Neither does an empty file, since some editors and scripts truncate a file before they write it.
    fs::write(&file, "").unwrap();
    let nothing = "the file is empty: write interfaces = [] to attach to nothing";
    assert_eq!(daemon.line(), format!("ratelimit: nothing was changed: {shown}:1:1: {nothing}"));
    assert_eq!(limits(&ratelimit), now);
    assert_eq!(ratelimit.json("status")["interfaces"][0]["name"], "eth0");

    // A rule that was set by command stays.
    folder.write(&FILE.replace("10.0.0.0/24\"\nservice = \"udp/53\"", "10.0.1.0/24\""));
    let line = "reloaded, rules: 0 set, 1 deleted, 1 unchanged; deleted 10.0.2.0/24 udp/53 (was 6/s); rules of the file replaced by command: 10.0.1.0/24";
    assert_eq!(daemon.line(), format!("ratelimit: {shown}: {line}"));
    daemon.process.signal(Signal::HUP);
    let line = "reloaded, rules: 0 set, 0 deleted, 1 unchanged; rules of the file replaced by command: 10.0.1.0/24";
    assert_eq!(daemon.line(), format!("ratelimit: {shown}: {line}"));
    ratelimit.ok("limit del 10.0.1.0/24");
    let line = "reloaded, rules: 1 set, 0 deleted, 1 unchanged; added 10.0.1.0/24 (5/s)";
    assert_eq!(ratelimit.ok("reload"), format!("{shown}: {line}\n"));
    assert_eq!(daemon.line(), format!("ratelimit: {shown}: {line}"));

    daemon.end();
    assert_eq!(limits(&ratelimit), ["default any 1000/s config", "10.0.1.0/24 any 5/s config"]);
    assert_eq!(ratelimit.json("status")["interfaces"][0]["name"], "eth0");
    let none = format!("ratelimit: no daemon runs for {PINS}: start one with `ratelimit run -c FILE`");
    assert_eq!(ratelimit.fails("reload"), none);
    assert!(!sandbox.victim(|| Path::new("/run/ratelimit").exists()));

    // The next daemon finds everything in place.
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &file);
    assert_eq!(daemon.line(), format!("ratelimit: {shown}: in force, rules: 0 set, 0 deleted, 2 unchanged"));
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn a_session_blocked_by_kept_rules_is_named_and_the_rules_stay() {
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
fn folders_of_other_programs_do_not_change() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    folder.write(FILE);
    // The first folder has another program's name. The second one has a name of ours, but another program created it.
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
fn an_instance_has_at_most_one_daemon() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    folder.write(FILE);
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    let line = ratelimit.fails(&format!("run -c {}", folder.file().display()));
    let first = format!("ratelimit: a daemon already runs for {PINS}, as process {} (", daemon.process.child.id());
    assert!(line.starts_with(&first) && line.ends_with("): `ratelimit reload` makes it read its file again"), "{line}");
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn a_failed_start_leaves_nothing() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    for (text, expected) in [
        ("interfaces = [\"eth9\"]\n[interface.eth9]\nwait = false", "no interface \"eth9\""),
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
