//! Several hosts, each with a link to its clients, and one to a server that all of them use.

mod address;
mod arrivals;
mod cluster;
mod sentinels;

use std::{fs, sync::Arc};

use ratelimit_sandbox::{connect_without_addresses, ip};

use self::address::SERVER;
pub use self::{arrivals::Arrivals, cluster::Cluster, sentinels::Sentinels};
use crate::{Encryption, Namespace, Redis, Sandbox};

/// The hosts' link to the server.
const LINK: &str = "engine0";

/// Hosts, and the namespace of their server.
#[derive(Debug)]
pub struct Hosts {
    /// The hosts. Each is the victim of its sandbox, and its clients are the peer.
    pub hosts: Vec<Sandbox>,
    server: Arc<Namespace>,
}

/// A direction of packets between a host and the server.
#[derive(Debug, Clone, Copy)]
pub enum Way {
    /// From the host to the server.
    ToServer,
    /// From the server to the host.
    FromServer,
}

impl Hosts {
    /// Creates hosts and links.
    ///
    /// # Panics
    ///
    /// Without root, or without iproute2.
    #[must_use]
    pub fn new(count: usize) -> Self {
        let hosts: Vec<_> = (0..count).map(|_| Sandbox::new()).collect();
        let server = Namespace::pair().0;
        ip(&server, "link set lo up");
        ip(&server, &format!("address add {SERVER}/32 dev lo"));
        for (number, host) in hosts.iter().enumerate() {
            let link = link(number);
            connect_without_addresses(host.victim_namespace(), &server, LINK, &link);
            ip(host.victim_namespace(), &format!("address add 10.8.{number}.1/24 dev {LINK}"));
            ip(&server, &format!("address add 10.8.{number}.254/24 dev {link}"));
            // Servers that tell their address need one for all hosts.
            ip(host.victim_namespace(), &format!("route add {SERVER}/32 dev {LINK}"));
        }
        Self { hosts, server: Arc::new(server) }
    }

    /// Starts a Redis server, which all hosts reach.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[must_use]
    pub fn redis(&self, options: &[&str]) -> Redis {
        Redis::start_in(&self.server, options)
    }

    /// Starts a cluster of Redis servers.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[must_use]
    pub fn cluster(&self) -> Cluster {
        Cluster::start(&self.server, 1, None, &[])
    }

    /// Starts a cluster without replicas. Its servers answer for their own slots while others are missing.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[must_use]
    pub fn cluster_without_replicas(&self) -> Cluster {
        Cluster::start(&self.server, 0, None, &["--cluster-require-full-coverage", "no"])
    }

    /// Starts a server with a replica, and sentinels.
    ///
    /// # Panics
    ///
    /// If they do not start.
    #[must_use]
    pub fn sentinels(&self) -> Sentinels {
        Sentinels::start(&self.server, None)
    }

    /// Starts a cluster whose servers encrypt all connections, also those to each other.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[must_use]
    pub fn encrypted_cluster(&self, encryption: &Encryption) -> Cluster {
        Cluster::start(&self.server, 0, Some(encryption), &[])
    }

    /// Starts a server with a replica, and sentinels, which encrypt all connections.
    ///
    /// # Panics
    ///
    /// If they do not start.
    #[must_use]
    pub fn encrypted_sentinels(&self, encryption: &Encryption) -> Sentinels {
        Sentinels::start(&self.server, Some(encryption))
    }

    /// Returns the URL of the server for a host.
    #[must_use]
    pub fn url(number: usize) -> String {
        format!("redis://10.8.{number}.254:{}", Redis::PORT)
    }

    /// Cuts a host off from the server, or connects it again.
    ///
    /// # Panics
    ///
    /// If the system refuses.
    pub fn cut(&self, number: usize, is_cut: bool) {
        ip(&self.server, &format!("link set {} {}", link(number), if is_cut { "down" } else { "up" }));
    }

    /// Loses all packets of one direction between a host and the server, or delivers them again.
    ///
    /// # Panics
    ///
    /// If the system refuses.
    pub fn lose(&self, number: usize, way: Way, is_lost: bool) {
        let (namespace, neighbor, link) = match way {
            Way::ToServer => (self.hosts[number].victim_namespace(), 254, LINK.to_owned()),
            Way::FromServer => (&self.server, 1, link(number)),
        };
        // The other end ignores a frame with another hardware address.
        let action = if is_lost { "replace" } else { "del" };
        let address = if is_lost { "lladdr 02:00:00:00:00:fe nud permanent" } else { "" };
        ip(namespace, &format!("neigh {action} 10.8.{number}.{neighbor} {address} dev {link}"));
    }

    /// Lets the hosts reach each other, through the namespace of the server.
    ///
    /// # Panics
    ///
    /// If the system refuses.
    pub fn join(&self) {
        self.server.run(|| fs::write("/proc/sys/net/ipv4/ip_forward", "1")).expect("cannot forward");
        for (number, host) in self.hosts.iter().enumerate() {
            ip(host.victim_namespace(), &format!("route add 10.8.0.0/16 via 10.8.{number}.254"));
        }
    }

    /// Returns the address of a host for the others.
    #[must_use]
    pub fn address(number: usize) -> String {
        format!("10.8.{number}.1")
    }

    /// Runs `work` in the namespace of the server.
    ///
    /// # Panics
    ///
    /// If `work` panics.
    pub fn server<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.server.run(work)
    }
}

/// Returns the name of the server's link to a host.
fn link(number: usize) -> String {
    format!("host{number}")
}
