//! A real Redis server in the victim's namespace.

use std::{
    env,
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use tokio::runtime::Builder;

use crate::{Process, Sandbox, VICTIM_IPV4};

const PORT: u16 = 6379;
/// Time in which it must accept connections.
const PATIENCE: Duration = Duration::from_secs(10);

/// A running server without persistence, killed on drop.
pub struct Redis {
    /// The process of the server.
    pub process: Process,
}

impl Redis {
    /// URL of the server, from the peer's namespace.
    #[must_use]
    pub fn url() -> String {
        format!("redis://{VICTIM_IPV4}:{PORT}")
    }

    /// Starts the server with further options. It accepts connections when this returns.
    ///
    /// # Panics
    ///
    /// If it is missing or does not start.
    #[must_use]
    pub fn start(sandbox: &Sandbox, options: &[&str]) -> Self {
        let (program, libraries) = program();
        let mut command = Command::new(program);
        command.env("LD_LIBRARY_PATH", libraries);
        command.args(["--bind", &VICTIM_IPV4.to_string(), "--port", &PORT.to_string(), "--protected-mode", "no"]);
        command.args(["--save", "", "--appendonly", "no", "--dir", "/run", "--loglevel", "warning"]);
        command.args(options).stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = sandbox.start(command);
        let begin = Instant::now();
        while sandbox.peer(|| TcpStream::connect((VICTIM_IPV4, PORT))).is_err() {
            let has_ended = process.child.try_wait().expect("cannot wait for Redis").is_some();
            assert!(!has_ended && begin.elapsed() < PATIENCE, "Redis does not start");
            thread::yield_now();
        }
        Self { process }
    }

    /// Runs a future in the namespace of the sandbox's peer, where the server is reached. The server may have ended.
    ///
    /// # Panics
    ///
    /// If the system refuses a runtime.
    pub fn at_the_peer<T: Send>(sandbox: &Sandbox, work: impl AsyncFnOnce() -> T + Send) -> T {
        sandbox.peer(|| {
            let runtime = Builder::new_current_thread().enable_all().build().expect("cannot make a runtime");
            runtime.block_on(work())
        })
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
