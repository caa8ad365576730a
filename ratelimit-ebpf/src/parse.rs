//! From a frame to the address that it came from.

use network_types::{
    eth::{EthHdr, EtherType},
    ip::{Ipv4Hdr, Ipv6Hdr},
};
use ratelimit_common::{reason::Reason, source::Source};

use crate::packet::{Packet, VlanTag};

/// VLAN tags that are looked through. A frame with more is dropped: passing it would let anyone evade a limit.
const MOST_TAGS: usize = 2;

/// The source of a packet, IPv6 with its whole address.
///
/// # Errors
///
/// The reason that decides about the packet where it has no source: it is no IP, or is malformed.
#[inline(always)]
pub fn source(packet: &Packet) -> Result<Source, Reason> {
    let mut ether_type = packet.header::<EthHdr>(0).ok_or(Reason::Malformed)?.ether_type;
    let mut offset = EthHdr::LEN;
    for _ in 0..MOST_TAGS {
        if is_tag(ether_type) {
            ether_type = packet.header::<VlanTag>(offset).ok_or(Reason::Malformed)?.ether_type;
            offset += size_of::<VlanTag>();
        }
    }
    if ether_type == EtherType::Ipv4 as u16 {
        ipv4(packet, offset)
    } else if ether_type == EtherType::Ipv6 as u16 {
        ipv6(packet, offset)
    } else if is_tag(ether_type) {
        Err(Reason::TooManyTags)
    } else {
        Err(Reason::NotIp)
    }
}

#[inline(always)]
fn is_tag(ether_type: u16) -> bool {
    ether_type == EtherType::Ieee8021q as u16 || ether_type == EtherType::Ieee8021ad as u16
}

#[inline(always)]
fn ipv4(packet: &Packet, offset: usize) -> Result<Source, Reason> {
    let header: Ipv4Hdr = packet.header(offset).ok_or(Reason::Malformed)?;
    let header_length = u32::from(header.ihl());
    let total = u32::from(header.tot_len());
    let arrived = packet.length() - offset as u32;
    let sound =
        header.version() == 4 && header_length >= Ipv4Hdr::LEN as u32 && total >= header_length && total <= arrived;
    if sound { Ok(Source::v4(header.src_addr)) } else { Err(Reason::Malformed) }
}

#[inline(always)]
fn ipv6(packet: &Packet, offset: usize) -> Result<Source, Reason> {
    let header: Ipv6Hdr = packet.header(offset).ok_or(Reason::Malformed)?;
    let total = Ipv6Hdr::LEN as u32 + u32::from(header.payload_len());
    let arrived = packet.length() - offset as u32;
    let sound = header.version() == 6 && total <= arrived;
    if sound { Ok(Source::v6(header.src_addr, 128)) } else { Err(Reason::Malformed) }
}
