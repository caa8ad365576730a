//! Reads all headers of a packet.

use network_types::eth::EtherType;
use ratelimit_common::reason::Reason;

use crate::{
    packet::frame::Packet,
    parse::{
        ethernet, ipv4, ipv6,
        outcome::{Parsed, no_source},
    },
};

/// Reads the headers of a packet.
///
/// # Errors
///
/// Returns the reason of a packet that has no source or is dropped at once. [`Reason::LinkDiscovery`] still has to pass
/// its cap.
#[inline(always)]
pub fn parse(packet: &Packet) -> Result<Parsed, Reason> {
    let (ether_type, offset) = ethernet::network(packet).ok_or_else(|| no_source(packet))?;
    if ether_type == EtherType::Ipv4 as u16 {
        ipv4::parse(packet, offset)
    } else if ether_type == EtherType::Ipv6 as u16 {
        ipv6::parse(packet, offset)
    } else if ether_type == EtherType::Arp as u16 {
        Err(Reason::LinkDiscovery)
    } else if ethernet::is_tag(ether_type) {
        Err(Reason::TooManyTags)
    } else {
        Err(Reason::NotIp)
    }
}
