//! The expected result of the product for a frame, from etherparse's opinion and the disagreements.

use etherparse::{
    EtherType, Ethernet2Slice, IpNumber, Ipv4HeaderSlice, Ipv6Header, LaxIpv4Slice, LaxIpv6Slice, SingleVlanSlice,
    err::ipv4::HeaderSliceError,
    ether_type::{ARP, IPV4, IPV6, MACSEC, PROVIDER_BRIDGING, VLAN_DOUBLE_TAGGED_FRAME, VLAN_TAGGED_FRAME},
    ip_number::{AUTH, ICMP, IGMP, IPV6_ICMP, SCTP, TCP},
};

use crate::reference::{
    self, MOST_TAGS, Opinion, Payload,
    disagreement::{Disagreement, Touched},
    extensions::{Walked, walk},
};

/// The expected result of the product.
#[derive(Debug, Clone, Copy)]
pub struct Expected {
    /// The opinion about the frame.
    pub opinion: Opinion,
    /// The disagreements that may cause it.
    because: Touched,
}

impl Expected {
    /// Returns the disagreements that the frame touches.
    pub fn because(&self) -> impl Iterator<Item = Disagreement> + use<> {
        self.because.all()
    }
}

/// Returns the expected result for etherparse's opinion `theirs`, which is the same unless a disagreement applies.
#[must_use]
pub fn expected(frame: &[u8], theirs: Opinion) -> Expected {
    let mut touched = Touched::default();
    let opinion = link(&mut touched, frame, theirs);
    Expected { opinion, because: touched }
}

/// Adds a disagreement and returns the opinion that it causes.
fn because(touched: &mut Touched, disagreement: Disagreement, opinion: Opinion) -> Opinion {
    touched.add(disagreement);
    opinion
}

fn link(touched: &mut Touched, frame: &[u8], theirs: Opinion) -> Opinion {
    let Ok(link) = Ethernet2Slice::from_slice_without_fcs(frame) else { return theirs };
    let (mut ether_type, mut bytes) = (link.ether_type(), link.payload_slice());
    for _ in 0..MOST_TAGS {
        if is_tag(ether_type) {
            let Ok(tag) = SingleVlanSlice::from_slice(bytes) else { return theirs };
            (ether_type, bytes) = (tag.ether_type(), tag.payload_slice());
        }
    }
    match ether_type {
        VLAN_DOUBLE_TAGGED_FRAME => because(touched, Disagreement::OtherTag, Opinion::NotIp),
        MACSEC => because(touched, Disagreement::Macsec, Opinion::NotIp),
        ARP => because(touched, Disagreement::ArpUnread, Opinion::Arp),
        IPV4 => ipv4(touched, bytes),
        IPV6 => ipv6(touched, bytes),
        _ if is_tag(ether_type) => because(touched, Disagreement::ThirdTagCut, Opinion::TooManyTags),
        _ => theirs,
    }
}

fn ipv4(touched: &mut Touched, bytes: &[u8]) -> Opinion {
    version(touched, bytes, 4);
    let ip = match LaxIpv4Slice::from_slice(bytes) {
        Ok((ip, _)) => ip,
        Err(HeaderSliceError::Content(_)) => return Opinion::Malformed,
        Err(HeaderSliceError::Len(_)) => {
            return if is_wrong_before_short(touched, bytes) { Opinion::Malformed } else { Opinion::Truncated };
        }
    };
    let (header, protocol) = (ip.header(), ip.header().protocol());
    if ip.payload().incomplete {
        return Opinion::Truncated;
    }
    if usize::from(header.total_len()) < header.slice().len() {
        return Opinion::Malformed;
    }
    if protocol == AUTH {
        touched.add(Disagreement::AuthenticationInIpv4);
    }
    let payload = if header.fragments_offset().value() != 0 {
        Payload::LaterFragment
    } else if protocol == AUTH {
        Payload::Protocol(AUTH.0)
    } else {
        payload(touched, protocol, ip.payload().payload)
    };
    Opinion::Packet { source: header.source_addr().into(), payload }
}

fn ipv6(touched: &mut Touched, bytes: &[u8]) -> Opinion {
    version(touched, bytes, 6);
    let (ip, bytes) = match LaxIpv6Slice::from_slice(bytes) {
        Ok((ip, _)) if ip.header().payload_length() == 0 => {
            touched.add(Disagreement::PayloadLengthZero);
            (ip, &[][..])
        }
        Ok((ip, _)) if ip.payload().incomplete => return Opinion::Truncated,
        Ok((ip, _)) => {
            let payload = &bytes[Ipv6Header::LEN..];
            (ip.clone(), &payload[..ip.header().payload_length().into()])
        }
        Err(etherparse::err::ipv6::HeaderSliceError::Content(_)) => return Opinion::Malformed,
        Err(etherparse::err::ipv6::HeaderSliceError::Len(_)) => return Opinion::Truncated,
    };
    let (header, source) = (ip.header(), ip.header().source_addr().into());
    let payload = match walk(header.next_header(), bytes, touched) {
        Walked::Truncated => return Opinion::Truncated,
        Walked::TooMany => return Opinion::TooManyHeaders,
        Walked::LaterFragment => Payload::LaterFragment,
        Walked::Payload(protocol, bytes) => {
            let payload = payload(touched, protocol, bytes);
            let is_discovery = bytes.first().is_some_and(|message| reference::is_discovery(*message));
            if header.next_header() == IPV6_ICMP && header.hop_limit() == u8::MAX && is_discovery {
                return Opinion::NeighbourDiscovery;
            }
            payload
        }
    };
    Opinion::Packet { source, payload }
}

/// Records the differences of an etherparse that trusts the version in the header.
fn version(touched: &mut Touched, bytes: &[u8], version: u8) {
    match bytes.first().map(|first| first >> 4) {
        Some(other @ (4 | 6)) if other != version => touched.add(Disagreement::VersionOverType),
        Some(_) if bytes.len() < if version == 4 { 20 } else { 40 } => touched.add(Disagreement::ShortBeforeWrong),
        _ => {}
    }
}

/// Returns whether a header is complete except for its options, and its total length ends before these.
fn is_wrong_before_short(touched: &mut Touched, bytes: &[u8]) -> bool {
    let Some((mut fixed, _)) = bytes.split_first_chunk::<20>().map(|(fixed, rest)| (*fixed, rest)) else {
        return false;
    };
    let length = 4 * usize::from(fixed[0] & 0x0f);
    fixed[0] = 0x45;
    let is_wrong = Ipv4HeaderSlice::from_slice(&fixed).is_ok_and(|fixed| usize::from(fixed.total_len()) < length);
    if is_wrong {
        touched.add(Disagreement::WrongBeforeShort);
    }
    is_wrong
}

fn payload(touched: &mut Touched, protocol: IpNumber, bytes: &[u8]) -> Payload {
    let theirs = reference::payload(protocol, bytes);
    match (protocol, theirs, bytes.first_chunk::<20>()) {
        (TCP, Payload::Cut | Payload::Contradictory, Some(fixed)) => {
            touched.add(Disagreement::TcpOffsetUnread);
            let mut fixed = *fixed;
            fixed[12] = 5 << 4;
            reference::payload(TCP, &fixed)
        }
        (ICMP | IPV6_ICMP | IGMP, Payload::Cut, _) => {
            touched.add(Disagreement::MessageUnread);
            Payload::Protocol(protocol.0)
        }
        (SCTP, Payload::Port { .. }, _) if bytes.len() < 12 => {
            touched.add(Disagreement::SctpUnknown);
            Payload::Cut
        }
        _ => theirs,
    }
}

fn is_tag(ether_type: EtherType) -> bool {
    matches!(ether_type, VLAN_TAGGED_FRAME | PROVIDER_BRIDGING)
}
