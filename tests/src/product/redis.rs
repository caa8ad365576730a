//! A real Redis server in a namespace.

use std::{
    net::{Ipv4Addr, TcpStream},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    thread,
    time::Instant,
};

use tokio::runtime::Builder;

use super::unpacked;
use crate::{Namespace, PATIENCE, Process, Sandbox, VICTIM_IPV4};

/// A running server without persistence, killed on drop.
#[derive(Debug)]
pub struct Redis {
    /// The process of the server.
    pub process: Process,
    /// Its port.
    pub port: u16,
}

impl Redis {
    /// The port of a server that is alone.
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

    /// Starts a further server at this port.
    ///
    /// # Panics
    ///
    /// If it is missing or does not start.
    #[must_use]
    pub fn start_another(sandbox: &Sandbox, port: u16, options: &[&str]) -> Self {
        Self::start_at(sandbox.victim_namespace(), port, options)
    }

    /// Starts the server in a namespace whose loopback interface is up.
    ///
    /// # Panics
    ///
    /// If it is missing or does not start.
    #[must_use]
    pub(crate) fn start_in(namespace: &Arc<Namespace>, options: &[&str]) -> Self {
        Self::start_at(namespace, Self::PORT, options)
    }

    /// Returns the command `redis-cli`.
    pub(crate) fn client() -> Command {
        program("redis-cli")
    }

    /// Starts the server at this port.
    pub(crate) fn start_at(namespace: &Arc<Namespace>, port: u16, options: &[&str]) -> Self {
        let mut command = program("redis-server");
        command.args(["--bind", "0.0.0.0", "--port", &port.to_string(), "--protected-mode", "no"]);
        command.args(["--save", "", "--appendonly", "no", "--dir", "/run", "--loglevel", "warning"]);
        command.args(options);
        Self::run(namespace, port, command)
    }

    /// Starts a sentinel with this file, which it changes.
    pub(crate) fn sentinel(namespace: &Arc<Namespace>, port: u16, file: &Path) -> Self {
        let mut command = program("redis-server");
        command.arg(file).arg("--sentinel");
        Self::run(namespace, port, command)
    }

    fn run(namespace: &Arc<Namespace>, port: u16, mut command: Command) -> Self {
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = Process::start(namespace, command);
        let begin = Instant::now();
        while namespace.run(|| TcpStream::connect((Ipv4Addr::LOCALHOST, port))).is_err() {
            let has_ended = process.child.try_wait().expect("cannot wait for Redis").is_some();
            assert!(!has_ended && begin.elapsed() < PATIENCE, "Redis does not start");
            thread::yield_now();
        }
        Self { process, port }
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

/// Returns the command of a program of Redis.
fn program(name: &str) -> Command {
    unpacked::program("redis", name, "--version")
}
