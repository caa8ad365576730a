//! Links and addresses of the victim and of the peer.

use std::net::{Ipv4Addr, Ipv6Addr};

/// The victim's interface, which tests protect.
pub const VICTIM_LINK: &str = "eth0";
/// The peer's end of the veth pair.
pub const PEER_LINK: &str = "peer0";
/// The victim's address, in no network.
pub const VICTIM_IPV4: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
/// The peer's address in a /16 with that of the victim.
pub const PEER_IPV4: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
/// The victim's address, in no network.
pub const VICTIM_IPV6: Ipv6Addr = Ipv6Addr::new(0xfd00, 9, 0, 0, 0, 0, 0, 1);
/// The peer's address in a /32 with that of the victim, and in the same /64.
pub const PEER_IPV6: Ipv6Addr = Ipv6Addr::new(0xfd00, 9, 0, 0, 0, 0, 0, 2);
/// Link address of both ends.
pub const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
