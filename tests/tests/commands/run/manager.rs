//! Messages of the daemon to the service manager and the journal, with their exact text.

use std::{
    fs::File,
    io::{BufRead as _, BufReader},
    os::{fd::OwnedFd, unix::fs::MetadataExt as _},
    process::Command,
};

use ratelimit_tests::{Daemon, Folder, NotifySocket, Ratelimit, Sandbox};
use rustix::{
    fs::{FlockOperation, flock},
    process::Signal,
};

use super::FILE;

/// Returns the message without the time of a reload, which must be in the past.
fn message(manager: &NotifySocket) -> String {
    let message = manager.message();
    let Some((before, time)) = message.split_once("MONOTONIC_USEC=") else { return message };
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let microseconds: i64 = time.trim_end().parse().unwrap();
    assert!(microseconds / 1_000_000 <= now.tv_sec && microseconds / 1_000_000 >= now.tv_sec - 60, "{time}");
    format!("{before}MONOTONIC_USEC=")
}

#[test]
fn the_service_manager_is_notified_of_every_state() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let manager = NotifySocket::new(&sandbox, "notify");
    let folder = Folder::new();
    folder.write(FILE);
    let shown = folder.file().display().to_string();
    let mut command = ratelimit.command(&format!("run -c {shown}"));
    command.env("NOTIFY_SOCKET", manager.path());
    let mut daemon = Daemon::by(&sandbox, command);
    daemon.line();
    assert_eq!(message(&manager), format!("READY=1\nSTATUS={shown} in force, rules: 2\n"));
    // The message comes before the command's answer.
    ratelimit.ok("reload");
    daemon.line();
    assert_eq!(message(&manager), "RELOADING=1\nMONOTONIC_USEC=");
    assert_eq!(message(&manager), format!("READY=1\nSTATUS={shown} in force, rules: 2\n"));

    // The daemon reloads by itself. An error is one line, whatever the file contains.
    folder.write("\"a\\nREADY=0\" = 1\nb = 2\n");
    let line = format!(
        "nothing was changed: {shown}:1:1: \"a\\nREADY=0\": unknown key: expected interfaces, interface, settings, default, allow, service, policy, list, rule, state, stops, crowdsec, metrics, fleet, serve, check, token, console, user, view"
    );
    assert_eq!(daemon.line(), format!("ratelimit: {line}"));
    assert_eq!(message(&manager), "RELOADING=1\nMONOTONIC_USEC=");
    let line = line.replace("nothing was changed", "reload failed, the previous rules stay in force");
    assert_eq!(message(&manager), format!("READY=1\nSTATUS={line}\n"));
    daemon.line();

    // The message mentions rules that were set by command.
    ratelimit.ok("limit set default --packets 7/s");
    folder.write(FILE);
    daemon.line();
    assert_eq!(message(&manager), "RELOADING=1\nMONOTONIC_USEC=");
    assert_eq!(message(&manager), format!("READY=1\nSTATUS={shown} in force, rules: 1, 1 not in force\n"));
    daemon.process.signal(Signal::TERM);
    assert_eq!(message(&manager), "STOPPING=1\n");
    daemon.line();
    assert!(daemon.process.wait().status.success());
    ratelimit.ok("detach --all");
}

#[test]
fn the_watchdog_is_notified_at_its_interval() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let manager = NotifySocket::new(&sandbox, "notify");
    let folder = Folder::new();
    folder.write(FILE);
    let mut command = ratelimit.command(&format!("run -c {}", folder.file().display()));
    command.env("NOTIFY_SOCKET", manager.path()).env("WATCHDOG_USEC", "20000");
    let mut daemon = Daemon::by(&sandbox, command);
    daemon.line();
    assert!(message(&manager).starts_with("READY=1"));
    for _ in 0..3 {
        assert_eq!(message(&manager), "WATCHDOG=1\n");
    }
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn the_watchdog_is_notified_while_a_reload_waits_for_a_command() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let manager = NotifySocket::new(&sandbox, "notify");
    let folder = Folder::new();
    folder.write(FILE);
    let mut command = ratelimit.command(&format!("run -c {}", folder.file().display()));
    command.env("NOTIFY_SOCKET", manager.path()).env("WATCHDOG_USEC", "20000");
    let mut daemon = Daemon::by(&sandbox, command);
    daemon.line();
    assert!(message(&manager).starts_with("READY=1"));
    // Held like a command that takes long.
    let pins = sandbox.victim(|| File::open("/sys/fs/bpf/ratelimit").unwrap());
    flock(&pins, FlockOperation::LockExclusive).unwrap();
    daemon.process.signal(Signal::HUP);
    while message(&manager) != "RELOADING=1\nMONOTONIC_USEC=" {}
    for _ in 0..10 {
        assert_eq!(message(&manager), "WATCHDOG=1\n");
    }
    drop(pins);
    assert!(daemon.line().contains("reloaded"));
    while !message(&manager).starts_with("READY=1") {}
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn journal_lines_have_their_severity() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    let shown = folder.file().display().to_string();
    // Standard error is the stream that the variable names, as under the service manager.
    let journal = |words: &str| {
        let (read, write) = std::io::pipe().unwrap();
        let file = File::from(OwnedFd::from(write.try_clone().unwrap())).metadata().unwrap();
        let mut command: Command = ratelimit.command(words);
        command.env("JOURNAL_STREAM", format!("{}:{}", file.dev(), file.ino())).stderr(write);
        (command, BufReader::new(read))
    };
    folder.write("a = 1\nb = 2\n");
    let (mut command, read) = journal(&format!("run -c {shown}"));
    assert_eq!(ratelimit.output(&mut command).status, 2);
    drop(command);
    let lines: Vec<String> = read.lines().map(Result::unwrap).collect();
    assert_eq!(lines.len(), 2);
    assert!(lines[0].starts_with(&format!("<3>ratelimit: {shown}:1:1: a: unknown key")), "{lines:?}");
    assert!(lines[1].starts_with(&format!("<3>{shown}:2:1: b: unknown key")), "{lines:?}");

    folder.write(FILE);
    ratelimit.ok("attach eth0");
    ratelimit.ok("limit set default --packets 7/s");
    let (command, read) = journal(&format!("run -c {shown}"));
    let mut process = sandbox.start(command);
    let mut lines = read.lines().map(Result::unwrap);
    let line = lines.next().unwrap();
    assert!(line.starts_with(&format!("<4>ratelimit: {shown}: in force, ")), "{line}");
    process.signal(Signal::TERM);
    assert_eq!(lines.next().unwrap(), "<6>ratelimit: ended; limits stay in force without a daemon");
    assert!(process.wait().status.success());

    // A process that inherits only the variable prints plain lines.
    let (mut command, _read) = journal("run -c /does/not/exist");
    command.stderr(std::process::Stdio::piped());
    assert!(ratelimit.output(&mut command).stderr.starts_with("ratelimit: /does/not/exist: "));
    ratelimit.ok("detach --all");
}
