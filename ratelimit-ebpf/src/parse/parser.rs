//! From a frame to its source and services.

use network_types::eth::{EthHdr, EtherType};
use ratelimit_common::{
    identity::{
        class::{ANY, Classes},
        source::Source,
    },
    reason::Reason,
};

use crate::{
    bpf::settings,
    packet::frame::Packet,
    parse::{ipv4, ipv6},
};

/// VLAN tags that are looked through. A frame with more is dropped: passing it would let anyone evade a limit.
pub(crate) const MOST_TAGS: usize = 2;

/// Bytes that an 802.1Q or 802.1ad tag adds in front of the type.
pub(crate) const TAG_LENGTH: usize = 4;

/// What a packet's headers say.
pub struct Parsed {
    /// Who sent it: an IPv4 address, or an IPv6 address with all its bits.
    pub source: Source,
    /// Which services it belongs to. Without rules for services there is only [`ANY`].
    pub classes: Classes,
}

/// Reads the headers of a packet.
///
/// # Errors
///
/// The reason that decides about the packet where it has no source, or is not let through. [`Reason::LinkDiscovery`] is still to be
/// capped.
#[inline(always)]
pub fn parse(packet: &Packet) -> Result<Parsed, Reason> {
    let (ether_type, offset) = network(packet).ok_or_else(|| no_source(packet))?;
    if ether_type == EtherType::Ipv4 as u16 {
        ipv4::parse(packet, offset)
    } else if ether_type == EtherType::Ipv6 as u16 {
        ipv6::parse(packet, offset)
    } else if ether_type == EtherType::Arp as u16 {
        Err(Reason::LinkDiscovery)
    } else if is_tag(ether_type) {
        Err(Reason::TooManyTags)
    } else {
        Err(Reason::NotIp)
    }
}

/// The type of what the Ethernet header and its tags lead to, in network order, and where it begins.
#[inline(always)]
pub(crate) fn network(packet: &Packet) -> Option<(u16, usize)> {
    let mut offset = EthHdr::LEN;
    let mut ether_type = type_before(packet, offset)?;
    for _ in 0..MOST_TAGS {
        if is_tag(ether_type) {
            offset += TAG_LENGTH;
            ether_type = type_before(packet, offset)?;
        }
    }
    Some((ether_type, offset))
}

/// The type of what begins at `offset`, in network order: the two bytes before it.
#[inline(always)]
fn type_before(packet: &Packet, offset: usize) -> Option<u16> {
    let bytes: &[u8; 2] = packet.header(offset - 2)?;
    Some(u16::from_ne_bytes(*bytes))
}

#[inline(always)]
fn is_tag(ether_type: u16) -> bool {
    ether_type == EtherType::Ieee8021q as u16 || ether_type == EtherType::Ieee8021ad as u16
}

/// Why a packet passes or not that ends before it says who sent it.
#[inline(always)]
pub(crate) fn no_source(packet: &Packet) -> Reason {
    if packet.has_more() { Reason::Unreadable } else { unreadable(Reason::Truncated) }
}

/// The reason of a packet whose source cannot be told, for this `reason`.
#[inline(always)]
pub(crate) fn unreadable(reason: Reason) -> Reason {
    if settings::is_on(&settings::PASS_MALFORMED) { Reason::Unreadable } else { reason }
}

/// What becomes of a packet whose source can be told, but not what else is in it, for this `reason`: where such packets pass, they
/// pass as far as the source may.
#[inline(always)]
pub(crate) fn defective(source: Source, reason: Reason) -> Result<Parsed, Reason> {
    if settings::is_on(&settings::PASS_MALFORMED) {
        Ok(Parsed { source, classes: Classes::from(ANY) })
    } else {
        Err(reason)
    }
}
