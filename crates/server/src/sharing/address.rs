//! Where a request comes from.

use std::net::IpAddr;

use ratelimit_base::text::prefix::Prefix;

/// Where a request comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// An IPv4 address, or the network of an IPv6 address.
    pub(super) network: IpAddr,
    /// Whether the client itself has a connection from there. Otherwise nothing proves the address, or the connection is
    /// that of a proxy: the caller says that the client has another address.
    pub is_direct: bool,
}

impl Origin {
    /// Returns the origin of a request over a connection from `remote`, whose caller says that the client has the address
    /// `named`. None if neither is known.
    pub fn of(remote: Option<IpAddr>, named: Option<IpAddr>) -> Option<Self> {
        let (remote, named) = (remote.map(|ip| ip.to_canonical()), named.map(|ip| ip.to_canonical()));
        let is_direct = remote.is_some_and(|remote| named.is_none_or(|named| named == remote));
        // A limit of the daemon can widen to the network.
        Some(Self { network: Prefix::network_of(remote.or(named)?).address(), is_direct })
    }
}
