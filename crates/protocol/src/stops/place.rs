//! Where a limit applies: the source and its service.

use std::net::IpAddr;

use ratelimit_base::text::prefix::Prefix;

/// The packets that a limit applies to: those from some addresses to one TCP port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// One address, or the network of some.
    pub source: Prefix,
    /// The TCP port on this host.
    pub port: u16,
}

impl Place {
    /// Returns the place of one address.
    pub(super) fn of(address: IpAddr, port: u16) -> Self {
        Self { source: Prefix::host(address.to_canonical()), port }
    }
}

/// Returns the network around an IPv6 address. None for an IPv4 address, which has none that it owns alone.
pub fn around(address: IpAddr) -> Option<Prefix> {
    let network = Prefix::network_of(address);
    (!network.is_host()).then_some(network)
}
