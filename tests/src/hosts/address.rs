//! The address of the servers.

use std::net::Ipv4Addr;

/// The servers' address for all hosts.
pub(super) const SERVER: Ipv4Addr = Ipv4Addr::new(10, 7, 0, 254);
