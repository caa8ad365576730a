//! The web server: nginx with one process in the victim's namespace.

use std::{
    env, fs,
    net::TcpStream,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use ratelimit_tests::{Process, Sandbox, VICTIM_IPV4};

use crate::flood::SERVER_PORT;

/// Bytes of the page.
pub(super) const PAGE: usize = 2_000;

/// Its folder in the sandbox's own `/run`, which ends with the sandbox.
const FOLDER: &str = "/run/nginx";
/// Time in which it must accept connections.
const PATIENCE: Duration = Duration::from_secs(10);

/// Checks that this machine can run the server beside a flood.
///
/// # Errors
///
/// Fails if nginx or a second CPU is missing.
pub(super) fn check() -> Result<()> {
    Command::new(program()).arg("-v").output().context("nginx is missing")?;
    ensure!(fs::exists("/sys/devices/system/cpu/cpu1")?, "the flood needs a second CPU");
    Ok(())
}

/// A running server, killed on drop.
pub(super) struct Server {
    _process: Process,
}

impl Server {
    /// Starts the server on the CPU of the calling thread. It accepts connections when this returns.
    ///
    /// # Errors
    ///
    /// Fails if nginx is missing or does not start.
    pub(super) fn start(sandbox: &Sandbox) -> Result<Self> {
        sandbox.victim(write_files).context("cannot write the files of nginx")?;
        let mut command = Command::new(program());
        // Without a master, no other process is left if this one is killed. It ends each connection after its page.
        command.args(["-p", FOLDER, "-c", "nginx.conf", "-e", "error.log"]);
        let mut process = sandbox.start(command);
        let begin = Instant::now();
        while sandbox.peer(|| TcpStream::connect((VICTIM_IPV4, SERVER_PORT))).is_err() {
            if process.child.try_wait()?.is_some() || begin.elapsed() > PATIENCE {
                let log = sandbox.victim(|| fs::read_to_string(Path::new(FOLDER).join("error.log")));
                bail!("nginx does not listen: {}", log.unwrap_or_default());
            }
            thread::yield_now();
        }
        Ok(Self { _process: process })
    }
}

fn write_files() -> std::io::Result<()> {
    let folder = Path::new(FOLDER);
    fs::create_dir_all(folder)?;
    fs::write(folder.join("index.html"), ".".repeat(PAGE))?;
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let temporary = temporary.map(|name| format!("{name}_temp_path {FOLDER}/{name};")).join("\n");
    let text = format!(
        "daemon off;\nmaster_process off;\npid {FOLDER}/pid;\nerror_log {FOLDER}/error.log;\n\
         events {{ worker_connections 4096; }}\n\
         http {{\naccess_log off;\nkeepalive_timeout 0;\n{temporary}\n\
         server {{ listen {VICTIM_IPV4}:{SERVER_PORT}; root {FOLDER}; }}\n}}\n"
    );
    fs::write(folder.join("nginx.conf"), text)
}

/// Returns the program that `cargo xtask bench` has unpacked, or that of the system.
fn program() -> PathBuf {
    let unpacked =
        env::current_exe().ok().and_then(|bench| Some(bench.parent()?.parent()?.join("nginx/usr/sbin/nginx")));
    unpacked.filter(|path| path.is_file()).unwrap_or_else(|| "nginx".into())
}
