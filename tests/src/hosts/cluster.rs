//! A cluster of three Redis servers, which may have a replica each.

use std::{process::Command, sync::Arc, thread, time::Instant};

use ratelimit_sandbox::output;
use rustix::process::Signal;

use super::address::SERVER;
use crate::{Encryption, Namespace, PATIENCE, Redis};

const SERVERS: u16 = 3;
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
    /// Starts the servers with these options, and joins them. Each has so many replicas.
    pub(super) fn start(
        namespace: &Arc<Namespace>,
        replicas: u16,
        encryption: Option<&Encryption>,
        options: &[&str],
    ) -> Self {
        let ports = FIRST_PORT..FIRST_PORT + SERVERS * (1 + replicas);
        let server = |port: u16| {
            let (address, file) = (SERVER.to_string(), format!("nodes-{port}.conf"));
            let cluster = ["--cluster-enabled", "yes", "--cluster-announce-ip", &address];
            let more = ["--cluster-node-timeout", "1000", "--cluster-config-file", &file];
            let between = ["--tls-cluster", "yes", "--tls-replication", "yes"];
            let encrypted = encryption.map(|files| files.server(port, &between)).unwrap_or_default();
            let encrypted: Vec<_> = encrypted.iter().map(String::as_str).collect();
            Redis::start_at(namespace, port, &[&cluster[..], &more, options, &encrypted].concat())
        };
        let servers = ports.clone().map(server).collect();
        let client = encryption.map(Encryption::client).unwrap_or_default();
        let cluster = Self { namespace: Arc::clone(namespace), servers, client };
        let mut create = Redis::client();
        create.args(&cluster.client).args(["--cluster", "create"]);
        create.args(ports.map(|port| format!("{SERVER}:{port}")));
        create.args(["--cluster-replicas", &replicas.to_string(), "--cluster-yes"]);
        let output = output(namespace, &mut create);
        assert!(output.status.success(), "no cluster: {}", String::from_utf8_lossy(&output.stdout));
        let begin = Instant::now();
        let is_ready = |server: &Redis| cluster.ask(server.port, &["CLUSTER", "INFO"]).contains("cluster_state:ok");
        while !cluster.servers.iter().all(is_ready) {
            assert!(begin.elapsed() < PATIENCE, "the servers do not find each other");
            thread::yield_now();
        }
        cluster
    }

    /// Returns the address of all servers.
    #[must_use]
    pub fn address() -> String {
        SERVER.to_string()
    }

    /// Returns the URLs of all servers, from every host.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        let scheme = if self.client.is_empty() { "redis" } else { "rediss" };
        self.servers.iter().map(|server| format!("{scheme}://{SERVER}:{}", server.port)).collect()
    }

    /// Returns the ports of all servers.
    #[must_use]
    pub fn ports(&self) -> Vec<u16> {
        self.servers.iter().map(|server| server.port).collect()
    }

    /// Returns the port of the server that has the slot of a key.
    ///
    /// # Panics
    ///
    /// If no server says that it has the slot.
    #[must_use]
    pub fn port_of(&self, key: &str) -> u16 {
        let port = self.servers.first().expect("a cluster has servers").port;
        // A server without the slot names the one that has it.
        let answer = self.ask(port, &["GET", key]);
        let moved = answer.strip_prefix("MOVED ").and_then(|answer| answer.rsplit(':').next());
        moved.map_or(port, |port| port.trim().parse().expect("a port"))
    }

    /// Kills the server that has the slot of a key.
    ///
    /// # Panics
    ///
    /// If no server says that it has the slot.
    pub fn kill_server_of(&mut self, key: &str) {
        let index = self.index(self.port_of(key));
        drop(self.servers.remove(index));
    }

    /// Sends a signal to the server at a port.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn signal(&self, port: u16, signal: Signal) {
        self.servers[self.index(port)].process.signal(signal);
    }

    fn index(&self, port: u16) -> usize {
        self.servers.iter().position(|server| server.port == port).expect("a server of this cluster")
    }

    /// Runs a command on the server at a port, and returns the answer as text.
    ///
    /// # Panics
    ///
    /// If `redis-cli` cannot be started.
    pub fn ask(&self, port: u16, words: &[&str]) -> String {
        let mut command: Command = Redis::client();
        command.args(&self.client).args(["-h", &SERVER.to_string(), "-p", &port.to_string()]).args(words);
        let output = output(&self.namespace, &mut command);
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }
}
