//! A cluster of three Redis servers, each with a replica that takes its place.

use std::{process::Command, sync::Arc};

use super::address::SERVER;
use crate::{Encryption, Namespace, Redis, sandbox::process};

/// Servers and replicas.
const COUNT: u16 = 6;
const FIRST_PORT: u16 = 7_000;

/// A running cluster, killed on drop.
#[derive(Debug)]
pub struct Cluster {
    namespace: Arc<Namespace>,
    servers: Vec<Redis>,
    /// Options of `redis-cli`.
    client: Vec<String>,
}

impl Cluster {
    /// Starts the servers, and joins them.
    pub(super) fn start(namespace: &Arc<Namespace>, encryption: Option<&Encryption>) -> Self {
        let ports = FIRST_PORT..FIRST_PORT + COUNT;
        let server = |port: u16| {
            let (address, file) = (SERVER.to_string(), format!("nodes-{port}.conf"));
            let options = ["--cluster-enabled", "yes", "--cluster-announce-ip", &address];
            let more = ["--cluster-node-timeout", "1000", "--cluster-config-file", &file];
            let encrypted =
                encryption.map(|files| files.server(port, &["--tls-cluster", "yes", "--tls-replication", "yes"]));
            let encrypted = encrypted.unwrap_or_default();
            let encrypted: Vec<_> = encrypted.iter().map(String::as_str).collect();
            Redis::start_at(namespace, port, &[&options[..], &more, &encrypted].concat())
        };
        let servers = ports.clone().map(server).collect();
        let client = encryption.map(Encryption::client).unwrap_or_default();
        let mut create = Redis::client();
        create.args(&client);
        create.args(["--cluster", "create"]).args(ports.map(|port| format!("{SERVER}:{port}")));
        create.args(["--cluster-replicas", "1", "--cluster-yes"]);
        let output = process::output(namespace, &mut create);
        assert!(output.status.success(), "no cluster: {}", String::from_utf8_lossy(&output.stdout));
        Self { namespace: Arc::clone(namespace), servers, client }
    }

    /// Returns the address of all servers.
    #[must_use]
    pub fn address() -> String {
        SERVER.to_string()
    }

    /// Returns the URLs of all servers, from every host.
    #[must_use]
    pub fn urls() -> Vec<String> {
        (FIRST_PORT..FIRST_PORT + COUNT).map(|port| format!("redis://{SERVER}:{port}")).collect()
    }

    /// Kills the server that has the slot of a key.
    ///
    /// # Panics
    ///
    /// If no server says that it has the slot.
    pub fn kill_server_of(&mut self, key: &str) {
        let ask = |port: u16, words: &[&str]| {
            let mut command: Command = Redis::client();
            command.args(&self.client).args(["-p", &port.to_string()]).args(words);
            let output = process::output(&self.namespace, &mut command);
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        };
        // A server without the slot names the one that has it.
        let answer = ask(FIRST_PORT, &["GET", key]);
        let moved = answer.strip_prefix("MOVED ").and_then(|answer| answer.rsplit(':').next());
        let port = moved.map_or(FIRST_PORT, |port| port.trim().parse().expect("a port"));
        let index = self.servers.iter().position(|server| server.port == port).expect("a server of this cluster");
        drop(self.servers.remove(index));
    }
}
