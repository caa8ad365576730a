//! From a frame to the address that it came from.

use network_types::{
    eth::{EthHdr, EtherType},
    ip::{Ipv4Hdr, Ipv6Hdr},
};
use ratelimit_common::{reason::Reason, source::Source};

use crate::packet::Packet;

/// VLAN tags that are looked through. A frame with more is dropped: passing it would let anyone evade a limit.
const MOST_TAGS: usize = 2;

/// Bytes that an 802.1Q or 802.1ad tag adds in front of the type.
const TAG_LENGTH: usize = 4;

/// Protocol number of ICMPv6.
const ICMPV6: u8 = 58;

/// The source of a packet, IPv6 with its whole address.
///
/// # Errors
///
/// The reason that decides about the packet where it has no source: it is no IP, or is malformed. [`Reason::LinkDiscovery`] is
/// still to be capped.
#[inline(always)]
pub fn source(packet: &Packet) -> Result<Source, Reason> {
    let mut offset = EthHdr::LEN;
    let mut ether_type = type_before(packet, offset)?;
    for _ in 0..MOST_TAGS {
        if is_tag(ether_type) {
            offset += TAG_LENGTH;
            ether_type = type_before(packet, offset)?;
        }
    }
    if ether_type == EtherType::Ipv4 as u16 {
        ipv4(packet, offset)
    } else if ether_type == EtherType::Ipv6 as u16 {
        ipv6(packet, offset)
    } else if ether_type == EtherType::Arp as u16 {
        Err(Reason::LinkDiscovery)
    } else if is_tag(ether_type) {
        Err(Reason::TooManyTags)
    } else {
        Err(Reason::NotIp)
    }
}

/// The type of what begins at `offset`, in network order: the two bytes before it.
#[inline(always)]
fn type_before(packet: &Packet, offset: usize) -> Result<u16, Reason> {
    let bytes: &[u8; 2] = packet.header(offset - 2).ok_or(Reason::Malformed)?;
    Ok(u16::from_ne_bytes(*bytes))
}

#[inline(always)]
fn is_tag(ether_type: u16) -> bool {
    ether_type == EtherType::Ieee8021q as u16 || ether_type == EtherType::Ieee8021ad as u16
}

#[inline(always)]
fn ipv4(packet: &Packet, offset: usize) -> Result<Source, Reason> {
    let header: &Ipv4Hdr = packet.header(offset).ok_or(Reason::Malformed)?;
    let (header_length, total) = (usize::from(header.ihl()), usize::from(header.tot_len()));
    let sound = header.version() == 4
        && header_length >= Ipv4Hdr::LEN
        && total >= header_length
        && total <= packet.length_from(offset);
    if sound { Ok(Source::v4(header.src_addr)) } else { Err(Reason::Malformed) }
}

#[inline(always)]
fn ipv6(packet: &Packet, offset: usize) -> Result<Source, Reason> {
    let header: &Ipv6Hdr = packet.header(offset).ok_or(Reason::Malformed)?;
    let total = Ipv6Hdr::LEN + usize::from(header.payload_len());
    let sound = header.version() == 6 && total <= packet.length_from(offset);
    if !sound {
        return Err(Reason::Malformed);
    }
    if header.next_hdr == ICMPV6 && header.hop_limit == u8::MAX && is_neighbour_discovery(packet, offset, total) {
        return Err(Reason::LinkDiscovery);
    }
    Ok(Source::v6(header.src_addr, 128))
}

/// Router and neighbour solicitation and advertisement, and redirect (RFC 4861, section 4). With a hop limit of 255 it was sent
/// on this very link; behind an extension header it is not exempt.
#[inline(always)]
fn is_neighbour_discovery(packet: &Packet, offset: usize, total: usize) -> bool {
    let kind: Option<&u8> = packet.header(offset + Ipv6Hdr::LEN);
    total > Ipv6Hdr::LEN && kind.is_some_and(|kind| matches!(kind, 133..=137))
}
