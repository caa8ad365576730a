//! Locks that another process does not release: commands give up and name that process, and the daemon tries again.

use std::{
    fs::File,
    time::{Duration, Instant},
};

use ratelimit_tests::{Daemon, Folder, Process, Ratelimit, Sandbox};
use rustix::{
    fs::{FlockOperation, flock},
    process::Signal,
};

use crate::{PINS, confirm::until, run::limits};

/// How long a command may take that gives up after ten seconds.
const SLOW: Duration = Duration::from_secs(60);

/// Starts a process that takes the lock of a path and keeps it.
fn hold(sandbox: &Sandbox, path: &str) -> Process {
    let mut command = std::process::Command::new("flock");
    command.args(["--no-fork", path, "sleep", "1000"]);
    let process = sandbox.start(command);
    let is_free = || {
        let file = sandbox.victim(|| File::open(path).unwrap());
        flock(&file, FlockOperation::NonBlockingLockShared).is_ok()
    };
    until("locked", || !is_free());
    process
}

/// Returns the process as messages name it.
fn named(process: &Process) -> String {
    format!("process {} (sleep 1000)", process.child.id())
}

#[test]
fn commands_name_the_holder_of_the_lock_and_the_daemon_tries_again() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    let file = |rate: &str| format!("interfaces = [\"eth0\"]\n[default]\npackets = \"{rate}\"\n");
    folder.write(&file("5/s"));
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();

    let holder = hold(&sandbox, PINS);
    let locked = format!(
        "{PINS} is locked by {}, still after 10 seconds: wait until it ends, or end it, then try again",
        named(&holder)
    );
    folder.write(&file("6/s"));
    let begin = Instant::now();
    std::thread::scope(|scope| {
        let commands = ["limit set 192.0.2.1 --packets 1/s", "status", "detach --all"];
        let lines = commands.map(|words| (words, scope.spawn(|| ratelimit.fails(words))));
        for (words, line) in lines {
            assert_eq!(line.join().unwrap(), format!("ratelimit: {locked}"), "{words}");
        }
    });
    let took = begin.elapsed();
    assert!((Duration::from_secs(10)..SLOW).contains(&took), "{took:?}");
    assert_eq!(daemon.line(), format!("ratelimit: nothing was changed: {locked}"));
    // Packets and readers without the lock do not wait.
    assert!(ratelimit.ok("metrics").contains("ratelimit_config_last_reload_successful 0\n"));
    drop(holder);
    let mut line = daemon.line();
    while line.starts_with("ratelimit: nothing was changed: ") {
        line = daemon.line();
    }
    assert!(line.contains(": reloaded, rules: 1 set, 0 deleted, 0 unchanged; replaced default (was "), "{line}");
    assert_eq!(limits(&ratelimit), ["default any 6/s config"]);
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn an_interface_that_comes_back_during_a_lock_is_attached_later() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    sandbox.ip("link add wan0 type veth peer name far0");
    folder.write("interfaces = [\"wan0\"]\n");
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    let holder = hold(&sandbox, PINS);
    sandbox.ip("link del wan0");
    sandbox.ip("link add wan0 type veth peer name far0");
    let line = daemon.line();
    let expected = format!("ratelimit: wan0: back again, but not limited: {PINS} is locked by {}", named(&holder));
    assert!(line.starts_with(&expected), "{line}");
    drop(holder);
    let mut line = daemon.line();
    while line.starts_with(&expected) {
        line = daemon.line();
    }
    assert_eq!(line, "ratelimit: wan0: back again, attached");
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn a_second_daemon_is_told_which_process_is_the_first() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let folder = Folder::new();
    folder.write("interfaces = [\"eth0\"]\n");
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    let run = format!("run -c {}", folder.file().display());
    let first = format!("process {} (", daemon.process.child.id());
    // By the lock of the socket, and by the lock among the pins.
    for lost in ["", "/run/ratelimit/socket.lock"] {
        if !lost.is_empty() {
            sandbox.victim(|| std::fs::remove_file(lost).unwrap());
        }
        let line = ratelimit.fails(&run);
        assert!(line.contains(&first) && line.contains(" run -c "), "{line}");
    }
    daemon.process.signal(Signal::TERM);
    assert!(daemon.line().contains("ended"));
    assert!(daemon.process.wait().status.success());
    ratelimit.ok("detach --all");
}
