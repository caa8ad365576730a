//! A server with a replica, and three sentinels that promote the replica if the server fails.

use std::{process::Command, sync::Arc, thread, time::Instant};

use ratelimit_sandbox::output;

use super::address::SERVER;
use crate::{Encryption, Folder, Namespace, PATIENCE, Redis};

/// Ports of the sentinels.
const PORTS: [u16; 3] = [26_379, 26_380, 26_381];
const REPLICA: u16 = Redis::PORT + 1;

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
    pub(super) fn start(namespace: &Arc<Namespace>, encryption: Option<&Encryption>) -> Self {
        let address = SERVER.to_string();
        let options = |port: u16, more: &[&str]| {
            let encrypted = encryption.map(|files| files.server(port, &["--tls-replication", "yes"]));
            let more = more.iter().map(ToString::to_string);
            encrypted.unwrap_or_default().into_iter().chain(more).collect::<Vec<_>>()
        };
        let server = |port: u16, more: &[&str]| {
            let announced = ["--replica-announce-ip", &address, "--replica-announce-port", &port.to_string()];
            let options = options(port, &[&announced, more].concat());
            Redis::start_at(namespace, port, &options.iter().map(String::as_str).collect::<Vec<_>>())
        };
        let master = server(Redis::PORT, &[]);
        let replica = server(REPLICA, &["--replicaof", &address, &Redis::PORT.to_string()]);
        let folder = Folder::new();
        let sentinel = |port: u16| {
            let (name, own, master) = (Self::MASTER, port.to_string(), Redis::PORT);
            let lines = options(port, &[]);
            let lines: Vec<_> = lines.chunks(2).map(|pair| pair.join(" ").replacen("--", "", 1)).collect();
            let text = format!(
                "port {own}\n{}\nbind 0.0.0.0\nprotected-mode no\nsentinel announce-ip {address}\n\
                 sentinel announce-port {own}\nsentinel monitor {name} {address} {master} 2\n\
                 sentinel down-after-milliseconds {name} 1000\nsentinel failover-timeout {name} 3000\n",
                lines.join("\n")
            );
            Redis::sentinel(namespace, port, &folder.add(&format!("{own}.conf"), &text))
        };
        let sentinels = PORTS.map(sentinel).into();
        let client = encryption.map(Encryption::client).unwrap_or_default();
        let begin = Instant::now();
        while !PORTS.iter().all(|port| knows_all(namespace, &client, *port)) {
            assert!(begin.elapsed() < PATIENCE, "the sentinels do not find each other");
            thread::yield_now();
        }
        Self { master: Some(master), _replica: replica, _sentinels: sentinels, _folder: folder }
    }

    /// Returns the URLs of all sentinels, from every host.
    #[must_use]
    pub fn urls(scheme: &str) -> Vec<String> {
        PORTS.map(|port| format!("{scheme}://{SERVER}:{port}")).into()
    }
}

/// Returns whether a sentinel knows the other ones and the replica.
fn knows_all(namespace: &Namespace, client: &[String], port: u16) -> bool {
    let mut command: Command = Redis::client();
    command.args(client).args(["-p", &port.to_string(), "SENTINEL", "MASTER", Sentinels::MASTER]);
    let output = output(namespace, &mut command);
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<_> = text.lines().collect();
    let has = |name: &str, value: &str| lines.windows(2).any(|pair| pair == [name, value]);
    has("num-other-sentinels", "2") && has("num-slaves", "1") && has("flags", "master")
}
