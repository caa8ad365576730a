//! Documented disagreements between the product and etherparse, each with its reason.

use etherparse::{
    EtherType, Ethernet2Slice, IpNumber, Ipv4HeaderSlice, Ipv6Header, LaxIpv4Slice, LaxIpv6Slice, SingleVlanSlice,
    err::ipv4::HeaderSliceError,
    ether_type::{ARP, IPV4, IPV6, MACSEC, PROVIDER_BRIDGING, VLAN_DOUBLE_TAGGED_FRAME, VLAN_TAGGED_FRAME},
    ip_number::{AUTH, ICMP, IGMP, IPV6_ICMP, SCTP, TCP},
};

use crate::reference::{
    self, MOST_TAGS, Opinion, Payload,
    extensions::{Walked, walk},
};

/// Declares the disagreements with their reasons.
macro_rules! disagreements {
    ($($disagreement:ident = $reason:literal;)*) => {
        /// A point in which the product and etherparse differ.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Disagreement {
            $(#[doc = $reason] $disagreement,)*
        }

        impl Disagreement {
            /// All disagreements.
            pub const ALL: &[Self] = &[$(Self::$disagreement),*];

            /// Returns the reason of the disagreement.
            #[must_use]
            pub const fn reason(self) -> &'static str {
                match self {
                    $(Self::$disagreement => $reason,)*
                }
            }
        }
    };
}

disagreements! {
    OtherTag = "etherparse parses the type 0x9100 as a VLAN tag. It is no standard and no VLAN device of Linux accepts it, so the product passes it as not IP";
    Macsec = "etherparse parses an unencrypted MACsec tag. The product passes MACsec as not IP";
    ThirdTagCut = "etherparse requires the bytes of a third tag. The product refuses by the type before them";
    ArpUnread = "etherparse requires a complete ARP packet. The product uses the EtherType, and leaves ARP to the kernel";
    VersionOverType = "etherparse uses the version in the IP header. The product uses the EtherType, like kernels do, and the version must agree";
    ShortBeforeWrong = "etherparse calls a header that is too short and contradictory malformed. The product reads nothing before all fixed bytes are present";
    WrongBeforeShort = "if IPv4 options are cut and the total length ends before them, etherparse says cut and the product malformed";
    PayloadLengthZero = "etherparse takes an IPv6 payload length of 0 as `to the end of the slice`. By RFC 8200 the packet is empty, as in Linux without hop-by-hop options. With these options the product refuses it as cut";
    AuthenticationInIpv4 = "etherparse parses an authentication header in IPv4. The product takes it as the protocol (service `ah`) and does not read it";
    HopByHopLater = "etherparse refuses hop-by-hop options after other headers. The product parses them, so that they hide no service";
    AuthenticationTooShort = "etherparse refuses an authentication header with a length field of 0, which is less than its fixed part. The product continues after 8 bytes, as the kernel does";
    BehindLaterFragment = "etherparse continues after the fragment header of a later fragment, where there is no header. The product stops";
    NinthHeaderCut = "etherparse requires the bytes of the ninth header. The product refuses by the type in the eighth";
    EighthHeaderCut = "etherparse says cut if the length of the eighth header exceeds the packet. The product has refused by then, since that header announces a ninth";
    TcpOffsetUnread = "etherparse checks the data offset of TCP. The product needs only the fixed 20 bytes, and leaves the offset to the kernel";
    MessageUnread = "etherparse requires complete messages of ICMP and IGMP. The product uses the protocol number, and the first byte of neighbour discovery";
    SctpUnknown = "etherparse does not parse SCTP, and finds the ports in 8 bytes. The product requires the 12 bytes of the common header";
}

/// The expected result of the product.
#[derive(Debug, Clone, Copy)]
pub struct Expected {
    /// The opinion about the frame.
    pub opinion: Opinion,
    /// The disagreements that may cause it.
    because: u32,
}

impl Expected {
    /// Returns the disagreements that the frame touches.
    pub fn because(&self) -> impl Iterator<Item = Disagreement> + use<> {
        let because = self.because;
        Disagreement::ALL.iter().copied().filter(move |disagreement| because >> *disagreement as u32 & 1 != 0)
    }
}

/// Returns the expected result for etherparse's opinion `theirs`, which is the same unless a disagreement applies.
#[must_use]
pub fn expected(frame: &[u8], theirs: Opinion) -> Expected {
    let mut touched = Touched(0);
    let opinion = touched.link(frame, theirs);
    Expected { opinion, because: touched.0 }
}

/// The disagreements that apply to one frame.
pub(crate) struct Touched(u32);

impl Touched {
    pub(crate) fn add(&mut self, disagreement: Disagreement) {
        self.0 |= 1 << disagreement as u32;
    }

    fn because(&mut self, disagreement: Disagreement, opinion: Opinion) -> Opinion {
        self.add(disagreement);
        opinion
    }

    fn link(&mut self, frame: &[u8], theirs: Opinion) -> Opinion {
        let Ok(link) = Ethernet2Slice::from_slice_without_fcs(frame) else { return theirs };
        let (mut ether_type, mut bytes) = (link.ether_type(), link.payload_slice());
        for _ in 0..MOST_TAGS {
            if is_tag(ether_type) {
                let Ok(tag) = SingleVlanSlice::from_slice(bytes) else { return theirs };
                (ether_type, bytes) = (tag.ether_type(), tag.payload_slice());
            }
        }
        match ether_type {
            VLAN_DOUBLE_TAGGED_FRAME => self.because(Disagreement::OtherTag, Opinion::NotIp),
            MACSEC => self.because(Disagreement::Macsec, Opinion::NotIp),
            ARP => self.because(Disagreement::ArpUnread, Opinion::Arp),
            IPV4 => self.ipv4(bytes),
            IPV6 => self.ipv6(bytes),
            _ if is_tag(ether_type) => self.because(Disagreement::ThirdTagCut, Opinion::TooManyTags),
            _ => theirs,
        }
    }

    fn ipv4(&mut self, bytes: &[u8]) -> Opinion {
        self.version(bytes, 4);
        let ip = match LaxIpv4Slice::from_slice(bytes) {
            Ok((ip, _)) => ip,
            Err(HeaderSliceError::Content(_)) => return Opinion::Malformed,
            Err(HeaderSliceError::Len(_)) => {
                return if self.is_wrong_before_short(bytes) { Opinion::Malformed } else { Opinion::Truncated };
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
            self.add(Disagreement::AuthenticationInIpv4);
        }
        let payload = if header.fragments_offset().value() != 0 {
            Payload::LaterFragment
        } else if protocol == AUTH {
            Payload::Protocol(AUTH.0)
        } else {
            self.payload(protocol, ip.payload().payload)
        };
        Opinion::Packet { source: header.source_addr().into(), payload }
    }

    fn ipv6(&mut self, bytes: &[u8]) -> Opinion {
        self.version(bytes, 6);
        let (ip, bytes) = match LaxIpv6Slice::from_slice(bytes) {
            Ok((ip, _)) if ip.header().payload_length() == 0 => {
                self.add(Disagreement::PayloadLengthZero);
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
        let payload = match walk(header.next_header(), bytes, self) {
            Walked::Truncated => return Opinion::Truncated,
            Walked::TooMany => return Opinion::TooManyHeaders,
            Walked::LaterFragment => Payload::LaterFragment,
            Walked::Payload(protocol, bytes) => {
                let payload = self.payload(protocol, bytes);
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
    fn version(&mut self, bytes: &[u8], version: u8) {
        match bytes.first().map(|first| first >> 4) {
            Some(other @ (4 | 6)) if other != version => self.add(Disagreement::VersionOverType),
            Some(_) if bytes.len() < if version == 4 { 20 } else { 40 } => self.add(Disagreement::ShortBeforeWrong),
            _ => {}
        }
    }

    /// Returns whether a header is complete except for its options, and its total length ends before these.
    fn is_wrong_before_short(&mut self, bytes: &[u8]) -> bool {
        let Some((mut fixed, _)) = bytes.split_first_chunk::<20>().map(|(fixed, rest)| (*fixed, rest)) else {
            return false;
        };
        let length = 4 * usize::from(fixed[0] & 0x0f);
        fixed[0] = 0x45;
        let is_wrong = Ipv4HeaderSlice::from_slice(&fixed).is_ok_and(|fixed| usize::from(fixed.total_len()) < length);
        if is_wrong {
            self.add(Disagreement::WrongBeforeShort);
        }
        is_wrong
    }

    fn payload(&mut self, protocol: IpNumber, bytes: &[u8]) -> Payload {
        let theirs = reference::payload(protocol, bytes);
        match (protocol, theirs, bytes.first_chunk::<20>()) {
            (TCP, Payload::Cut | Payload::Contradictory, Some(fixed)) => {
                self.add(Disagreement::TcpOffsetUnread);
                let mut fixed = *fixed;
                fixed[12] = 5 << 4;
                reference::payload(TCP, &fixed)
            }
            (ICMP | IPV6_ICMP | IGMP, Payload::Cut, _) => {
                self.add(Disagreement::MessageUnread);
                Payload::Protocol(protocol.0)
            }
            (SCTP, Payload::Port { .. }, _) if bytes.len() < 12 => {
                self.add(Disagreement::SctpUnknown);
                Payload::Cut
            }
            _ => theirs,
        }
    }
}

fn is_tag(ether_type: EtherType) -> bool {
    matches!(ether_type, VLAN_TAGGED_FRAME | PROVIDER_BRIDGING)
}
