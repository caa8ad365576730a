//! `ratelimit serve` under faults and hostile callers. Another caller is answered meanwhile, and the server takes no more
//! memory and files than its bounds allow.

mod clients;
mod clock;
mod connections;
mod handshakes;
mod http2;
mod large;
mod slow;
mod unread;
mod unread_http2;
mod usage;

use std::{
    fs,
    path::Path,
    process::{Command, Output},
    time::{Duration, Instant},
};

use ratelimit_tests::{Daemon, PATIENCE, Sandbox, wait_until};

/// The most connections of one caller.
const OF_ONE: usize = 1_024;
/// Open files beside connections.
const OTHERS: usize = 64;

/// What a server takes of the system.
#[derive(Debug, Clone, Copy)]
struct Taken {
    /// Its memory.
    kilobytes: usize,
    /// Its open files.
    files: usize,
}

impl Taken {
    fn by(daemon: &Daemon) -> Self {
        let process = format!("/proc/{}", daemon.process.child.id());
        let status = fs::read_to_string(format!("{process}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let kilobytes = line.trim().trim_end_matches(" kB").parse().unwrap();
        Self { kilobytes, files: fs::read_dir(format!("{process}/fd")).unwrap().count() }
    }

    /// Fails if a server has grown by more than this many megabytes.
    fn check_growth(self, now: Self, megabytes: usize) {
        assert!(now.kilobytes < self.kilobytes + megabytes * 1_024, "{self:?}, then {now:?}");
    }
}

/// Waits until the server has no more files than before.
fn recover(daemon: &Daemon, before: Taken) {
    let time = wait_until("the server closes its files", || Taken::by(daemon).files <= before.files);
    println!("{before:?}, {:?} after {:.1} s", Taken::by(daemon), time.as_secs_f64());
}

/// Fails if another process on this host is not answered. Returns the time until its answer.
fn another_is_answered(sandbox: &Sandbox, socket: &Path) -> Duration {
    let begin = Instant::now();
    check_answer(&call_of_another(sandbox, socket));
    begin.elapsed()
}

/// Calls from another process on this host.
fn call_of_another(sandbox: &Sandbox, socket: &Path) -> Output {
    let mut curl = Command::new("curl");
    curl.args(["-s", "-v", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", &PATIENCE.as_secs().to_string()]);
    curl.arg("--unix-socket").arg(socket).args(["-d", &super::of_user("17").to_string()]);
    curl.arg("http://localhost/v1/check");
    sandbox.output(&mut curl)
}

/// Fails if a call was not answered.
fn check_answer(output: &Output) {
    assert!([&b"200"[..], b"429"].contains(&&*output.stdout), "{output:?}");
}
