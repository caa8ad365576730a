//! The servers that are compared, on the loopback of a sandbox.

use std::{
    env,
    net::{Ipv4Addr, SocketAddrV4, TcpStream},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, bail, ensure};
use ratelimit_tests::{Daemon, Folder, Process, Ratelimit, Sandbox};

/// The CPU of servers.
pub(super) const CPU: usize = 0;
/// The CPU of their callers.
pub(super) const CALLERS_CPU: usize = 1;

/// The columns of their tables.
pub(super) const COLUMNS: [&str; 3] =
    ["thousand answers/s", "thousand answers per CPU second of the server", "99th percentile in ms"];

/// Time in which a server must accept connections.
const PATIENCE: Duration = Duration::from_secs(10);

/// The product's rules. No request reaches the limit of the first one. The second one allows a request per day.
const RULES: &str = r#"
[[check]]
name = "passing"
match = { operation = "pass" }
key = ["user"]
limits = ["1M/s"]

[[check]]
name = "over"
match = { operation = "refuse" }
key = ["user"]
limits = ["1/d"]
"#;

/// Returns an address on the loopback.
pub(super) const fn local(port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)
}

/// The product's server, killed on drop.
pub(super) struct Product {
    daemon: Daemon,
    _folder: Folder,
}

impl Product {
    /// Starts it on the CPU of the calling thread. `keys` are those of the table `[serve]`.
    ///
    /// # Errors
    ///
    /// Fails if it does not serve.
    pub(super) fn start(sandbox: &Sandbox, keys: &str) -> Result<Self> {
        let folder = Folder::new();
        folder.write(&format!("[serve]\n{keys}\n{RULES}"));
        let command = Ratelimit::new(sandbox).command(&format!("serve -c {}", folder.file().display()));
        let mut daemon = Daemon::by(sandbox, command);
        let line = daemon.line();
        ensure!(line.contains("serving"), "{line}");
        Ok(Self { daemon, _folder: folder })
    }

    /// Returns the number of its process.
    pub(super) fn process(&self) -> u32 {
        self.daemon.process.child.id()
    }
}

/// Starts this program as a server that only agrees, on the CPU of the calling thread.
///
/// # Errors
///
/// Fails if it does not accept connections.
pub(super) fn bare(sandbox: &Sandbox, kind: &str, address: SocketAddrV4) -> Result<Process> {
    let mut command = Command::new(env::current_exe()?);
    command.arg(kind).arg(address.to_string());
    let mut process = sandbox.start(command);
    let begin = Instant::now();
    while sandbox.victim(|| TcpStream::connect(address)).is_err() {
        if process.child.try_wait()?.is_some() || begin.elapsed() > PATIENCE {
            bail!("the server that only agrees does not listen");
        }
        thread::yield_now();
    }
    Ok(process)
}
