//! Commands that connect to a daemon and say nothing, and connections that the system refuses.

use std::{
    os::unix::net::UnixStream,
    process::Command,
    time::{Duration, Instant},
};

use ratelimit_tests::{Daemon, Folder, Ratelimit, Sandbox, scaled};
use rustix::process::Signal;

use super::FILE;

/// Opens connections that say nothing.
pub(crate) fn silent(sandbox: &Sandbox, socket: &str) -> Vec<UnixStream> {
    sandbox.victim(|| (0..12).map(|_| UnixStream::connect(socket).unwrap()).collect())
}

/// Sets the most open files of a process.
pub(crate) fn limit_files(process: u32, files: &str) {
    let mut prlimit = Command::new("prlimit");
    let status = prlimit.args(["--pid", &process.to_string(), &format!("--nofile={files}")]).status();
    assert!(status.unwrap().success());
}

#[test]
fn silent_connections_delay_no_reload() {
    let sandbox = Sandbox::new();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    folder.write(FILE);
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    let silent = silent(&sandbox, "/run/ratelimit/socket");
    let begin = Instant::now();
    ratelimit.ok("reload");
    let took = begin.elapsed();
    println!("a reload beside {} silent connections took {took:?}", silent.len());
    assert!(took < scaled(Duration::from_secs(3)), "{took:?}");
    // However many there are, one of root gets its turn.
    let more: Vec<_> = (0..10).map(|_| self::silent(&sandbox, "/run/ratelimit/socket")).collect();
    ratelimit.ok("reload");
    drop((silent, more));
    daemon.process.signal(Signal::TERM);
    assert!(daemon.process.wait().status.success());
    ratelimit.ok("detach --all");
}

#[test]
fn a_daemon_that_can_accept_no_connection_goes_on() {
    let sandbox = Sandbox::new();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    folder.write(FILE);
    let mut daemon = Daemon::start(&sandbox, &ratelimit, &folder.file());
    daemon.line();
    let process = daemon.process.child.id();
    limit_files(process, "3:");
    let waits = sandbox.victim(|| UnixStream::connect("/run/ratelimit/socket").unwrap());
    let expected = "ratelimit: cannot answer commands: Too many open files (os error 24): it is tried again";
    // Other parts of the daemon miss files too.
    assert!((0..5).any(|_| daemon.line() == expected));
    limit_files(process, "1024:");
    ratelimit.ok("reload");
    drop(waits);
    daemon.process.signal(Signal::TERM);
    assert!(daemon.process.wait().status.success());
    ratelimit.ok("detach --all");
}
