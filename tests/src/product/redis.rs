//! A real Redis server in a namespace.

use std::{
    env,
    net::{Ipv4Addr, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use crate::{Namespace, Process, Sandbox, VICTIM_IPV4};

/// Time in which it must accept connections.
const PATIENCE: Duration = Duration::from_secs(10);

/// A running server without persistence, killed on drop.
#[derive(Debug)]
pub struct Redis {
    /// The process of the server.
    pub process: Process,
}

impl Redis {
    /// Its port.
    pub const PORT: u16 = 6379;

    /// URL of the server, from the peer's namespace.
    #[must_use]
    pub fn url() -> String {
        format!("redis://{VICTIM_IPV4}:{}", Self::PORT)
    }

    /// Starts the server with further options in the victim's namespace. It accepts connections when this returns.
    ///
    /// # Panics
    ///
    /// If it is missing or does not start.
    #[must_use]
    pub fn start(sandbox: &Sandbox, options: &[&str]) -> Self {
        Self::start_in(sandbox.victim_namespace(), options)
    }

    /// Starts the server in a namespace whose loopback interface is up.
    ///
    /// # Panics
    ///
    /// If it is missing or does not start.
    #[must_use]
    pub(crate) fn start_in(namespace: &Arc<Namespace>, options: &[&str]) -> Self {
        let (program, libraries) = program();
        let mut command = Command::new(program);
        command.env("LD_LIBRARY_PATH", libraries);
        command.args(["--bind", "0.0.0.0", "--port", &Self::PORT.to_string(), "--protected-mode", "no"]);
        command.args(["--save", "", "--appendonly", "no", "--dir", "/run", "--loglevel", "warning"]);
        command.args(options).stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = Process::start(namespace, command);
        let begin = Instant::now();
        while namespace.run(|| TcpStream::connect((Ipv4Addr::LOCALHOST, Self::PORT))).is_err() {
            let has_ended = process.child.try_wait().expect("cannot wait for Redis").is_some();
            assert!(!has_ended && begin.elapsed() < PATIENCE, "Redis does not start");
            thread::yield_now();
        }
        Self { process }
    }
}

/// Returns the program and its libraries, from `cargo xtask setup` or PATH.
fn program() -> (PathBuf, PathBuf) {
    let executable = env::current_exe().expect("no path of the test");
    let folders = executable.ancestors().map(|folder| folder.join("redis/usr"));
    let unpacked = folders.into_iter().find(|folder| folder.join("bin/redis-server").is_file());
    let program = unpacked.as_ref().map_or_else(|| PathBuf::from("redis-server"), |usr| usr.join("bin/redis-server"));
    let triple = format!("lib/{}-linux-gnu", env::consts::ARCH);
    let libraries = unpacked.map_or_else(PathBuf::new, |usr| usr.join(Path::new(&triple)));
    let output = Command::new(&program).env("LD_LIBRARY_PATH", &libraries).arg("--version").output();
    assert!(output.is_ok_and(|output| output.status.success()), "no redis-server: run `cargo xtask setup`");
    (program, libraries)
}
