//! Changes by operators and by the daemon, as events and in the daemon's log.

use std::{
    fs::{self, File},
    os::fd::AsFd as _,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use ratelimit_tests::{Daemon, Flood, Folder, Frame, PATIENCE, Ratelimit, Sandbox, schema, wait_until};
use rustix::{pipe::fcntl_setpipe_size, process::Signal};
use serde_json::Value;

use super::FILE;
use crate::events::Events;

/// Returns who made each recorded change and what it was.
fn past(ratelimit: &Ratelimit<'_>) -> Vec<(String, String)> {
    let text = ratelimit.ok("events --past --json");
    let event = |line: &str| -> Value { serde_json::from_str(line).unwrap() };
    let text_of = |event: &Value, field: &str| event[field].as_str().unwrap().to_owned();
    text.lines()
        .map(event)
        .map(|event| {
            schema::check_value("events", &event);
            assert_eq!(event["event"], "changed");
            (text_of(&event, "by"), text_of(&event, "what"))
        })
        .collect()
}

#[test]
fn each_change_of_an_operator_is_recorded_and_nothing_else() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 1000/s");
    let mut command = ratelimit.command("deny add 10.9.0.7 --for 10m --comment two");
    command.env("SSH_CONNECTION", "10.9.0.5 50000 10.9.0.1 22");
    assert_eq!(ratelimit.output(&mut command).status, 0);
    // These change nothing.
    let _ = ratelimit.json("status");
    ratelimit.fails("limit set 10.9.0.8 --packets none");
    assert_eq!(ratelimit.run("deny del 10.9.0.8").status, 1);
    let long = "x".repeat(60);
    ratelimit.ok(&format!("limit set 10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.4 10.0.0.5 10.0.0.6 10.0.0.7 10.0.0.8 10.0.0.9 10.0.1.1 10.0.1.2 10.0.1.3 --packets 5/s --comment {long}"));
    let changes = past(&ratelimit);
    let whats: Vec<_> = changes.iter().map(|(_, what)| what.as_str()).collect();
    assert_eq!(whats[..2], ["attach eth0 --packets 1000/s", "deny add 10.9.0.7 --for 10m --comment two"]);
    assert!(whats[2].starts_with("limit set 10.0.0.1 ") && whats[2].ends_with('…'), "{whats:?}");
    assert!(whats.len() == 3 && whats[2].len() <= 192, "{whats:?}");
    assert!(changes[1].0.ends_with(" from 10.9.0.5") && !changes[0].0.contains("from"), "{changes:?}");
    let text = ratelimit.ok("events --past -n 1");
    assert!(text.lines().count() == 1 && text.starts_with("20") && text.contains(": limit set "), "{text}");
    ratelimit.ok("detach --all");
    assert!(ratelimit.fails("events --past").contains("is not attached"));
}

#[test]
fn the_oldest_changes_go_when_there_are_very_many() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    for number in 0..260 {
        ratelimit.ok(&format!("deny add 10.1.{}.{}", number / 250, number % 250));
    }
    let changes = past(&ratelimit);
    assert!((190..=256).contains(&changes.len()), "{}", changes.len());
    assert_eq!(changes.last().unwrap().1, "deny add 10.1.1.9");
    ratelimit.ok("detach --all");
}

#[test]
fn starts_reloads_and_the_end_of_the_daemon_are_recorded() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    folder.write(FILE);
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    folder.write(&format!("{FILE}nonsense = 1\n"));
    daemon.line();
    folder.write(&FILE.replace("1000/s", "2000/s"));
    daemon.line();
    daemon.end();
    let changes = past(&ratelimit);
    assert!(changes.iter().all(|(by, _)| by == "daemon"), "{changes:?}");
    let whats: Vec<_> = changes.into_iter().map(|(_, what)| what).collect();
    let [started, failed, reloaded, ended] = whats.as_slice() else { panic!("{whats:?}") };
    assert!(started.starts_with("started with ") && started.contains(": in force, rules: "), "{started}");
    assert!(failed.starts_with("reload failed, nothing was changed: "), "{failed}");
    assert!(reloaded.contains(": reloaded, rules: 1 set"), "{reloaded}");
    assert_eq!(ended, "ended; limits stay in force");
    ratelimit.ok("detach --all");
}

#[test]
fn without_systemd_the_log_has_bans_and_changes_by_operators() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    folder.write("interfaces = [\"eth0\"]\n[default]\npackets = \"1/h\"\nburst = 3\nban = \"10m\"\n");
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    ratelimit.ok("deny add 10.1.0.1");
    assert!(daemon.event().ends_with(": deny add 10.1.0.1"));
    Flood::of(Frame::udp([10, 9, 0, 66], 9)).send(&sandbox, 10);
    let event = daemon.event();
    assert!(event.ends_with(" 10.9.0.66: banned for 10m"), "{event}");
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn each_line_of_a_log_in_a_file_has_its_time() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    folder.write(FILE);
    let log = folder.file().with_file_name("log");
    let mut command = ratelimit.command(&format!("run -c {}", folder.file().display()));
    command.stderr(Stdio::from(File::create(&log).unwrap()));
    let begin = Timestamp::now();
    let mut process = sandbox.start(command);
    let text = || fs::read_to_string(&log).unwrap();
    wait_until("the daemon has started", || text().contains(": in force, "));
    ratelimit.ok("reload");
    ratelimit.ok("deny add 10.1.0.1");
    folder.write("nonsense");
    wait_until("everything is told", || text().contains("deny add") && text().contains("nothing was changed"));
    process.signal(Signal::TERM);
    assert!(process.wait().status.success());
    assert!(text().lines().count() >= 5, "{}", text());
    for line in text().lines() {
        let (time, message) = line.split_once(' ').unwrap();
        let time: Timestamp = time.parse().unwrap();
        assert!(time.as_second() >= begin.as_second() && time <= Timestamp::now(), "{line}");
        assert!(message.starts_with("ratelimit: ") || message.ends_with(": deny add 10.1.0.1"), "{line}");
    }
    // So has why it does not start. Other commands do not write a log.
    let mut command = ratelimit.command("run -c /does/not/exist");
    command.stderr(Stdio::from(File::create(&log).unwrap()));
    assert_eq!(sandbox.start(command).wait().status.code(), Some(2));
    assert!(text().starts_with("20") && text().contains("Z ratelimit: /does/not/exist: "), "{}", text());
    let mut command = ratelimit.command("check /does/not/exist");
    command.stderr(Stdio::from(File::create(&log).unwrap()));
    assert_eq!(sandbox.start(command).wait().status.code(), Some(2));
    assert!(text().starts_with("ratelimit: /does/not/exist: "), "{}", text());
    ratelimit.ok("detach --all");
}

#[test]
fn a_recorded_command_is_one_that_a_shell_takes_and_the_same_live_and_later() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    let mut events = Events::start(&sandbox, &ratelimit, "");
    let comments = [
        "two words",
        "it's",
        "",
        "\"quoted\"",
        "$(id) `id` ; # \\ *",
        "Zürich",
        "~",
        "a=b",
        "-x",
        "\u{202e}back",
        "tab\there",
    ];
    for (number, comment) in comments.iter().enumerate() {
        let mut command = ratelimit.command(&format!("deny add 10.1.0.{number} --comment"));
        let is_done = ratelimit.output(command.arg(comment)).status == 0;
        if !is_done {
            // What no rule can have as its comment is no change.
            continue;
        }
        let live = events.line();
        let past = ratelimit.ok("events --past -n 1");
        assert_eq!(past.trim_end(), live, "{comment:?}");
        let words = past.trim_end().split_once(": ").unwrap().1.to_owned();
        assert!(!words.chars().any(char::is_control), "{words}");
        if comment.contains('\u{202e}') {
            assert!(words.ends_with(r"--comment '\u{202e}back'"), "{words}");
            continue;
        }
        // A shell that repeats it sets the same comment.
        let rule = || {
            let rules = ratelimit.json("deny list");
            let is_it = |rule: &&Value| rule["source"] == format!("10.1.0.{number}");
            rules.as_array().unwrap().iter().find(is_it).cloned().unwrap()
        };
        let before = rule();
        ratelimit.ok(&format!("deny del 10.1.0.{number}"));
        events.line();
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("\"$0\" {words}")]).arg(ratelimit.command("").get_program());
        assert!(sandbox.output(shell.env_remove("SSH_CONNECTION")).status.success(), "{words}");
        events.line();
        assert_eq!(rule(), before, "{words}");
    }
    ratelimit.ok("detach --all");
}

#[test]
fn a_log_that_nobody_reads_does_not_stop_the_daemon() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    folder.write(FILE);
    let (read, write) = std::io::pipe().unwrap();
    fcntl_setpipe_size(read.as_fd(), 4_096).unwrap();
    let mut command = ratelimit.command(&format!("run -c {}", folder.file().display()));
    command.stderr(Stdio::from(write));
    let mut process = sandbox.start(command);
    let has_daemon = || {
        let status = ratelimit.run("status --json");
        status.status == 0 && serde_json::from_str::<Value>(&status.stdout).unwrap()["config"].is_object()
    };
    while !has_daemon() {}
    // More lines than the pipe has room for.
    for number in 0..100 {
        ratelimit.ok(&format!("deny add 10.1.0.{number} --comment {}", "x".repeat(40)));
    }
    assert!(has_daemon());
    for _ in 0..60 {
        ratelimit.ok("reload");
    }
    process.signal(Signal::TERM);
    assert_eq!(process.wait().status.code(), Some(0));
    drop(File::from(std::os::fd::OwnedFd::from(read)));
    ratelimit.ok("detach --all");
}

#[test]
fn a_change_is_recorded_although_its_output_is_lost_and_no_change_is_not() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    let mut command = ratelimit.command("deny add 10.9.0.7");
    command.stdout(File::options().write(true).open("/dev/full").unwrap()).stderr(Stdio::piped());
    assert_eq!(sandbox.start(command).wait().status.code(), Some(2));
    ratelimit.ok("deny del 10.9.0.8 --if-exists");
    ratelimit.ok("list del none --if-exists");
    ratelimit.ok("set --shadow off");
    ratelimit.ok("upgrade");
    let whats: Vec<_> = past(&ratelimit).into_iter().map(|(_, what)| what).collect();
    assert_eq!(whats, ["attach eth0", "deny add 10.9.0.7"]);
    ratelimit.ok("detach --all");
}

#[test]
fn an_attach_that_is_not_confirmed_is_recorded_with_its_end() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    ratelimit.ok("attach eth0 --packets 500/s --confirm 1s");
    let begin = Instant::now();
    let whats = || past(&ratelimit).into_iter().map(|(_, what)| what).collect::<Vec<_>>();
    while whats().len() < 3 && begin.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(20));
    }
    let attached = "attach eth0 --packets 500/s --confirm 1s";
    assert_eq!(whats(), ["attach eth0", attached, "attach undone, because it was not confirmed"]);
    ratelimit.ok("detach --all");
}

#[test]
fn reloads_displace_no_change_of_an_operator() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    folder.write(FILE);
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    ratelimit.ok("deny add 10.9.0.7");
    for _ in 0..20 {
        ratelimit.ok("reload");
        daemon.line();
    }
    let changes = past(&ratelimit);
    assert!(changes.iter().any(|(_, what)| what == "deny add 10.9.0.7"), "{changes:?}");
    assert!(changes.len() <= 4, "{changes:?}");
    daemon.end();
    ratelimit.ok("detach --all");
}
