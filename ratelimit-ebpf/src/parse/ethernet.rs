//! The Ethernet header and its VLAN tags.

use network_types::eth::{EthHdr, EtherType};

use crate::packet::headers::Frame;

/// Largest number of VLAN tags. A frame with more is dropped, since any sender could evade a limit with them.
pub(crate) const MOST_TAGS: usize = 2;

/// Bytes that an 802.1Q or 802.1ad tag adds in front of the type.
pub(crate) const TAG_LENGTH: usize = 4;

/// Returns the type behind the Ethernet header and its tags, in network order, and the offset of the network header.
#[inline(always)]
pub(crate) fn network(frame: &impl Frame) -> Option<(u16, usize)> {
    let mut offset = EthHdr::LEN;
    let mut ether_type = type_before(frame, offset)?;
    for _ in 0..MOST_TAGS {
        if is_tag(ether_type) {
            offset += TAG_LENGTH;
            ether_type = type_before(frame, offset)?;
        }
    }
    Some((ether_type, offset))
}

/// Returns the type of the header at `offset`, in network order: the two bytes before it.
#[inline(always)]
fn type_before(frame: &impl Frame, offset: usize) -> Option<u16> {
    let bytes = frame.read::<[u8; 2]>(offset - 2)?;
    Some(u16::from_ne_bytes(*bytes))
}

/// Returns whether an IPv6 header with these first bytes may be a VLAN tag in front of another header, where no Ethernet
/// header tells. The kernel takes such tags away.
///
/// Of a tag, the type of what follows is where IPv6 has a part of its flow label, which is random. So what follows must
/// look like its type: this leaves IPv6 packets of 16,424 bytes and more in two of 65,536 flows.
#[inline(always)]
pub(crate) fn may_be_tag([_, _, high, low, version, _, next_high, next_low]: [u8; 8]) -> bool {
    let ether_type = u16::from_ne_bytes([high, low]);
    let follows = u16::from_ne_bytes([next_high, next_low]);
    let is_ip = |ether_type| ether_type == EtherType::Ipv4 as u16 || ether_type == EtherType::Ipv6 as u16;
    if is_tag(ether_type) {
        return is_tag(follows) || is_ip(follows);
    }
    is_ip(ether_type) && version >> 4 == if ether_type == EtherType::Ipv4 as u16 { 4 } else { 6 }
}

/// Returns whether a type is that of a VLAN tag.
#[inline(always)]
pub(crate) fn is_tag(ether_type: u16) -> bool {
    ether_type == EtherType::Ieee8021q as u16 || ether_type == EtherType::Ieee8021ad as u16
}
