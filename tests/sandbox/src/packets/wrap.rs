//! IP packets built header by header, valid or not.

use std::net::{Ipv4Addr, Ipv6Addr};

use etherparse::{
    IpAuthHeader, IpFragOffset, IpNumber, Ipv4Header, Ipv6FlowLabel, Ipv6FragmentHeader, Ipv6Header, TcpHeader,
    UdpHeader,
};

use crate::{MAC, VICTIM_IPV4, VICTIM_IPV6};

/// The five kinds of IPv6 extension headers that the product parses.
pub const EXTENSIONS: [(&str, u8); 5] = [
    ("hop-by-hop options", HOP_BY_HOP),
    ("routing header", ROUTING),
    ("atomic fragment", FRAGMENT),
    ("authentication header", AUTHENTICATION),
    ("destination options", DESTINATION),
];

/// Number of the hop-by-hop options.
pub const HOP_BY_HOP: u8 = 0;
/// Number of the routing header.
pub const ROUTING: u8 = 43;
/// Number of the fragment header.
pub const FRAGMENT: u8 = 44;
/// Number of the authentication header.
pub const AUTHENTICATION: u8 = 51;
/// Number of the destination options.
pub const DESTINATION: u8 = 60;

/// A packet that is built from its payload outwards.
#[derive(Debug, Clone)]
pub struct Wrap {
    protocol: u8,
    bytes: Vec<u8>,
}

impl Wrap {
    /// Returns the payload of an IP packet.
    #[must_use]
    pub fn new(protocol: u8, bytes: impl Into<Vec<u8>>) -> Self {
        Self { protocol, bytes: bytes.into() }
    }

    /// Returns a UDP datagram to this port.
    #[must_use]
    pub fn udp(port: u16) -> Self {
        let header = UdpHeader { source_port: 50_000, destination_port: port, length: 8 + 18, checksum: 0 };
        Self::new(17, [&header.to_bytes()[..], &[0; 18]].concat())
    }

    /// Returns a TCP segment to this port, with SYN or not.
    #[must_use]
    pub fn tcp(port: u16, is_syn: bool) -> Self {
        let mut header = TcpHeader::new(50_000, port, 0, u16::MAX);
        (header.syn, header.ack) = (is_syn, !is_syn);
        Self::new(6, &header.to_bytes()[..])
    }

    /// Prepends an IPv6 extension header of this kind with minimum length.
    #[must_use]
    pub fn behind(self, kind: u8) -> Self {
        match kind {
            FRAGMENT => self.fragment(0, false),
            AUTHENTICATION => {
                let header = IpAuthHeader::new(IpNumber(self.protocol), 1, 1, &[0xff; 12]).expect("three words fit");
                Self::new(kind, [&header.to_bytes()[..], &self.bytes].concat())
            }
            kind => self.behind_longer(kind, 0),
        }
    }

    /// Prepends an IPv6 extension header with options, of 8 + 8 × `units` bytes.
    #[must_use]
    pub fn behind_longer(self, kind: u8, units: u8) -> Self {
        let mut header = vec![self.protocol, units];
        header.resize(8 + 8 * usize::from(units), 0);
        Self::new(kind, [header, self.bytes].concat())
    }

    /// Prepends an IPv6 fragment header.
    #[must_use]
    pub fn fragment(self, offset: u16, has_more: bool) -> Self {
        let header = Ipv6FragmentHeader::new(IpNumber(self.protocol), fragment_offset(offset), has_more, 7);
        Self::new(FRAGMENT, [&header.to_bytes()[..], &self.bytes].concat())
    }

    /// Returns the IPv4 packet with a changed header.
    #[must_use]
    pub fn v4(&self, source: Ipv4Addr, change: impl FnOnce(&mut Ipv4Header)) -> Vec<u8> {
        let header = Ipv4Header::new(0, 64, IpNumber(self.protocol), source.octets(), VICTIM_IPV4.octets());
        let mut header = header.expect("an empty payload fits");
        change(&mut header);
        header.set_payload_len(self.bytes.len()).expect("the payload fits");
        [&header.to_bytes()[..], &self.bytes].concat()
    }

    /// Returns the IPv6 packet with this hop limit.
    #[must_use]
    pub fn v6(&self, source: Ipv6Addr, hop_limit: u8) -> Vec<u8> {
        let header = Ipv6Header {
            traffic_class: 0,
            flow_label: Ipv6FlowLabel::ZERO,
            payload_length: u16::try_from(self.bytes.len()).expect("the payload fits"),
            next_header: IpNumber(self.protocol),
            hop_limit,
            source: source.octets(),
            destination: VICTIM_IPV6.octets(),
        };
        [&header.to_bytes()[..], &self.bytes].concat()
    }
}

/// Returns an IP packet in an Ethernet frame with these tags.
#[must_use]
pub fn framed(packet: &[u8], tags: &[u16]) -> Vec<u8> {
    let mut frame = [MAC, MAC].concat();
    for tag in tags {
        frame.extend(tag.to_be_bytes().iter().chain(&[0, 7]));
    }
    let ether_type: u16 = if packet[0] >> 4 == 6 { 0x86dd } else { 0x0800 };
    frame.extend(ether_type.to_be_bytes());
    [&frame, packet].concat()
}

/// Returns a fragment offset in units of eight bytes.
///
/// # Panics
///
/// If the number has more than 13 bits.
#[must_use]
pub fn fragment_offset(units: u16) -> IpFragOffset {
    IpFragOffset::try_new(units).expect("an offset has 13 bits")
}
