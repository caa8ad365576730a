//! A server with a replica, and three sentinels that promote the replica if the server fails.

use std::{
    process::Command,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use super::address::SERVER;
use crate::{Folder, Namespace, Redis, sandbox::process};

/// Ports of the sentinels.
const PORTS: [u16; 3] = [26_379, 26_380, 26_381];
const REPLICA: u16 = Redis::PORT + 1;
/// Time in which the sentinels must find each other and the replica.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running server with its replica and sentinels, killed on drop.
#[derive(Debug)]
pub struct Sentinels {
    /// The server, until it is killed.
    pub master: Option<Redis>,
    _replica: Redis,
    _sentinels: Vec<Redis>,
    _folder: Folder,
}

impl Sentinels {
    /// The name of the server.
    pub const MASTER: &str = "shares";

    /// Starts all of them.
    pub(super) fn start(namespace: &Arc<Namespace>) -> Self {
        let (address, port, replica) = (SERVER.to_string(), Redis::PORT.to_string(), REPLICA.to_string());
        let master = Redis::start_in(namespace, &["--replica-announce-ip", &address]);
        let follow = ["--replicaof", &address, &port, "--replica-announce-ip", &address];
        let replica =
            Redis::start_at(namespace, REPLICA, &[&follow[..], &["--replica-announce-port", &replica]].concat());
        let folder = Folder::new();
        let sentinel = |own: u16| {
            let name = Self::MASTER;
            let text = format!(
                "port {own}\nbind 0.0.0.0\nprotected-mode no\nsentinel monitor {name} {address} {port} 2\n\
                 sentinel down-after-milliseconds {name} 1000\nsentinel failover-timeout {name} 3000\n\
                 sentinel announce-ip {address}\n"
            );
            let file = folder.add(&format!("{own}.conf"), &text);
            Redis::sentinel(namespace, own, &file)
        };
        let sentinels = PORTS.map(sentinel).into();
        let begin = Instant::now();
        while !PORTS.iter().all(|port| knows_all(namespace, *port)) {
            assert!(begin.elapsed() < PATIENCE, "the sentinels do not find each other");
            thread::yield_now();
        }
        Self { master: Some(master), _replica: replica, _sentinels: sentinels, _folder: folder }
    }

    /// Returns the URLs of all sentinels, from every host.
    #[must_use]
    pub fn urls() -> Vec<String> {
        PORTS.map(|port| format!("redis://{SERVER}:{port}")).into()
    }
}

/// Returns whether a sentinel knows the other ones and the replica.
fn knows_all(namespace: &Namespace, port: u16) -> bool {
    let mut command: Command = Redis::client();
    command.args(["-p", &port.to_string(), "SENTINEL", "MASTER", Sentinels::MASTER]);
    let output = process::output(namespace, &mut command);
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<_> = text.lines().collect();
    let has = |name: &str, value: &str| lines.windows(2).any(|pair| pair == [name, value]);
    has("num-other-sentinels", "2") && has("num-slaves", "1") && has("flags", "master")
}
