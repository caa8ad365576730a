//! Rules of callers outlast restarts, reloads, kills and a disk that refuses them.

use std::{
    fs,
    path::Path,
    process::Command,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use ratelimit_tests::{Daemon, Folder, Ratelimit, Sandbox};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{ADMIN, Changed, file, store};
use crate::serve::{self, Server, of_user};

#[test]
fn a_missing_folder_of_rules_keeps_no_limit_from_being_in_force_and_changes_begin_once_it_is_there() {
    let sandbox = Sandbox::new();
    let (kept, folder, ratelimit) = (Folder::new(), Folder::new(), Ratelimit::new(&sandbox));
    let path = kept.file().with_file_name("later").join("rules.toml");
    let socket = folder.file().with_file_name("check.sock");
    folder.write(&serve::text(&socket, &file(&path)));
    let mut daemon = Daemon::by(&sandbox, ratelimit.command(&format!("serve -c {}", folder.file().display())));
    let line = daemon.line();
    assert!(line.starts_with("ratelimit: the rules of callers cannot be read: rules: "), "{line}");
    assert!(line.contains("does its folder exist, and may this user write there?: none of them is in force"), "{line}");
    assert!(daemon.line().contains(" by 1 rule"));
    let changed = Changed { server: Server { daemon, socket, folder }, ratelimit, kept };
    let error = changed.fails("set a --limits 1/s", ADMIN);
    assert!(error.starts_with("ratelimit: nothing is changed: rules: "), "{error}");
    fs::create_dir(path.parent().unwrap()).unwrap();
    changed.ok("set a --limits 1/s", ADMIN);
    assert_eq!(changed.names(), ["create-url", "a"]);
    changed.server.end();
}

#[test]
fn rules_of_callers_outlast_restarts_and_reloads_and_a_broken_file_of_them_changes_nothing() {
    let sandbox = Sandbox::new();
    let changed = Changed::start(&sandbox);
    changed.ok("set a --limits 1/s", ADMIN);
    let Changed { server, kept, .. } = changed;
    server.end();
    let mut changed = Changed::with(&sandbox, kept);
    assert_eq!(changed.names(), ["create-url", "a"]);
    let good = fs::read_to_string(store(&changed.kept)).unwrap();

    let _ = changed.kept.add("rules.toml", &good.replace("\"1/s\"", "\"often\""));
    changed.server.daemon.process.signal(Signal::HUP);
    let line = changed.server.daemon.line();
    assert!(line.starts_with("ratelimit: the rules before stay in force: rule a: limits: "), "{line}");
    let error = changed.fails("set b --limits 1/s", ADMIN);
    assert!(error.starts_with("ratelimit: nothing is changed: rule a: limits: "), "{error}");
    assert_eq!(changed.names(), ["create-url", "a"]);

    let _ =
        changed.kept.add("rules.toml", &format!("{good}\n[[check]]\nversion = 1\nname = \"c\"\nlimits = \"1/s\"\n"));
    changed.server.daemon.process.signal(Signal::HUP);
    assert_eq!(changed.server.daemon.line(), "ratelimit: 1 rule of the file and 2 of callers in force");
    assert_eq!(changed.names(), ["create-url", "a", "c"]);

    // The operator takes a name that a caller has.
    let text = fs::read_to_string(changed.server.folder.file()).unwrap();
    changed.server.folder.write(&(text + "[[check]]\nname = \"a\"\nlimits = \"9/s\"\n"));
    changed.server.daemon.process.signal(Signal::HUP);
    let line = changed.server.daemon.line();
    assert!(line.contains("a is a rule of callers too: choose another name, or delete that one first"), "{line}");
    let Changed { server, kept, .. } = changed;
    server.end();

    let _ = kept.add("rules.toml", "version = 1\n[[check]]\nname = \"a\n");
    // A start without a rule of the operator would limit nothing.
    let folder = Folder::new();
    let socket = folder.file().with_file_name("check.sock");
    let text = serve::text(&socket, &file(&store(&kept)));
    folder.write(text.split_once("\n[[check]]").unwrap().0);
    let ratelimit = Ratelimit::new(&sandbox);
    let words = format!("serve -c {}", folder.file().display());
    let error = ratelimit.fails(&words);
    assert!(error.contains("rules.toml:3:"), "{error}");
    // With one, that is in force, and no change replaces the file before somebody has mended it.
    folder.write(&text);
    let mut daemon = Daemon::by(&sandbox, ratelimit.command(&words));
    let line = daemon.line();
    assert!(line.starts_with("ratelimit: the rules of callers cannot be read: ") && line.contains(":3:"), "{line}");
    assert!(daemon.line().contains(" by 1 rule"));
    let mut changed = Changed { server: Server { daemon, socket, folder }, ratelimit, kept };
    let error = changed.fails("set b --limits 1/s", ADMIN);
    assert!(error.starts_with("ratelimit: nothing is changed: ") && error.contains("rules.toml:3:"), "{error}");
    assert_eq!(changed.names(), ["create-url"]);
    let _ = changed.kept.add("rules.toml", &good);
    changed.server.daemon.process.signal(Signal::HUP);
    assert_eq!(changed.server.daemon.line(), "ratelimit: 1 rule of the file and 1 of callers in force");
    changed.ok("set b --limits 1/s", ADMIN);
    assert_eq!(changed.names(), ["create-url", "a", "b"]);
    changed.server.end();
}

#[test]
fn a_server_that_is_killed_while_it_writes_has_every_change_that_it_has_answered() {
    let sandbox = Sandbox::new();
    let mut kept = Folder::new();
    for round in 0..5 {
        let mut changed = Changed::with(&sandbox, kept);
        let answered: [AtomicU64; 4] = Default::default();
        let pid = changed.server.daemon.process.child.id();
        thread::scope(|scope| {
            for (number, answered) in answered.iter().enumerate() {
                let socket = &changed.server.socket;
                scope.spawn(move || write_until_the_end(socket, &format!("r{round}-{number}"), answered));
            }
            while answered.iter().any(|version| version.load(Ordering::Relaxed) == 0) {
                thread::yield_now();
            }
            let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
            rustix::process::kill_process(pid, Signal::KILL).unwrap();
        });
        let _ = changed.server.daemon.process.child.wait().unwrap();
        let again = Changed::with(&sandbox, changed.kept);
        for (number, answered) in answered.iter().enumerate() {
            let rule = again.json(&format!("get r{round}-{number}"));
            assert!(rule["version"].as_u64().unwrap() >= answered.load(Ordering::Relaxed), "{rule}");
        }
        // Each version in force is in the log, and no version is there twice but to say that it is undone.
        let log = again.json("log -n 1000");
        let log = log.as_array().unwrap();
        for rule in again.json("list").as_array().unwrap().iter().filter(|rule| !rule["version"].is_null()) {
            let is_this = |entry: &&Value| entry["version"] == rule["version"] && entry["action"] != "undone";
            let entries: Vec<_> = log.iter().filter(is_this).collect();
            assert_eq!(entries.len(), 1, "{rule}");
            assert_eq!(entries[0]["new"], rule["rule"]);
        }
        let Changed { server, kept: after, .. } = again;
        server.end();
        kept = after;
    }
}

/// Changes a rule until the server is gone. Writes the last version that it has answered.
fn write_until_the_end(socket: &Path, name: &str, answered: &AtomicU64) {
    let mut condition = "If-None-Match: *".to_owned();
    for number in 1.. {
        let output = Command::new("curl")
            .args(["-s", "-X", "PUT", "--unix-socket"])
            .arg(socket)
            .args(["-H", &format!("Authorization: Bearer {ADMIN}"), "-H", &condition])
            .args(["-d", &format!("{{\"limits\": \"{number}/m\"}}"), &format!("http://localhost/v1/rules/{name}")])
            .output()
            .unwrap();
        let Ok(answer) = serde_json::from_slice::<Value>(&output.stdout) else { return };
        let version = answer["version"].as_u64().unwrap();
        answered.store(version, Ordering::Relaxed);
        condition = format!("If-Match: \"{version}\"");
    }
}

#[test]
fn a_read_only_disk_refuses_changes_and_the_rules_before_stay() {
    let sandbox = Sandbox::new();
    let (kept, folder) = (Folder::new(), Folder::new());
    let disk = kept.file().with_file_name("disk");
    fs::create_dir(&disk).unwrap();
    let socket = folder.file().with_file_name("check.sock");
    folder.write(&serve::text(&socket, &file(&disk.join("rules.toml"))));
    let ratelimit = Ratelimit::new(&sandbox);
    let inner = ratelimit.command(&format!("serve -c {}", folder.file().display()));
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", "mount -t tmpfs none \"$0\" && exec \"$@\""]).arg(&disk);
    command.arg(inner.get_program()).args(inner.get_args());
    let mut daemon = Daemon::by(&sandbox, command);
    assert!(daemon.line().starts_with("ratelimit: serving unix:"));
    let pid = daemon.process.child.id().to_string();
    let changed = Changed { server: Server { daemon, socket, folder }, ratelimit, kept };
    let remount = |options: &str| {
        let mut command = Command::new("nsenter");
        command.args(["-t", &pid, "-m", "mount", "-o", options]).arg(&disk);
        assert!(sandbox.output(&mut command).status.success());
    };
    changed.ok("set a --limits 1/s", ADMIN);
    remount("remount,ro");
    for words in ["set a --limits 2/s", "set b --limits 2/s", "del a"] {
        let error = changed.fails(words, ADMIN);
        assert!(error.starts_with("ratelimit: nothing is changed: ") && error.contains("Read-only"), "{error}");
    }
    assert_eq!(changed.json("get a"), json!({"name": "a", "version": 1, "rule": {"limits": ["1/s"]}}));
    assert_eq!(changed.server.check(&of_user("17")).status, 200);
    remount("remount,rw");
    changed.ok("set a --limits 2/s", ADMIN);
    assert_eq!(changed.json("log").as_array().unwrap().len(), 2);
    changed.server.end();
}

#[test]
fn a_rule_that_is_left_out_at_the_start_can_be_deleted_and_replaced_by_command() {
    let sandbox = Sandbox::new();
    let (folder, kept) = (Folder::new(), Folder::new());
    let rule = |name: &str, limits: &str| format!("[[check]]\nversion = 2\nname = \"{name}\"\nlimits = \"{limits}\"\n");
    let rules = format!("version = 2\n{}{}{}", rule("a", "often"), rule("b", "1/s"), rule("c", "seldom"));
    let _ = kept.add("rules.toml", &rules);
    let socket = folder.file().with_file_name("check.sock");
    folder.write(&serve::text(&socket, &file(&store(&kept))));
    let ratelimit = Ratelimit::new(&sandbox);
    let mut daemon = Daemon::by(&sandbox, ratelimit.command(&format!("serve -c {}", folder.file().display())));
    assert!(daemon.line().starts_with("ratelimit: rule a: limits: "));
    assert!(daemon.line().starts_with("ratelimit: rule c: limits: "));
    assert!(daemon.line().contains(" by "));
    let changed = Changed { server: Server { daemon, socket, folder }, ratelimit, kept };
    assert_eq!(changed.names(), ["create-url", "b"]);
    let error = changed.fails("get a", ADMIN);
    assert_eq!(error, "ratelimit: a is left out by this server, as its log says: version 2");
    assert_eq!(changed.ok("del a", ADMIN), "a: version 2 is deleted\n");
    changed.ok("set c --limits 1/s", ADMIN);
    let text = fs::read_to_string(store(&changed.kept)).unwrap();
    assert!(!text.contains("often") && !text.contains("seldom"), "{text}");
    assert_eq!(changed.names(), ["create-url", "b", "c"]);
    assert!(changed.fails("get a", ADMIN).contains("there is no rule a"));
    changed.server.end();
}
