//! Where the product may see a frame otherwise than etherparse does, each with its reason.

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
        /// One point in which the product and etherparse differ.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Disagreement {
            $(#[doc = $reason] $disagreement,)*
        }

        impl Disagreement {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$disagreement),*];

            /// Why they differ.
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
    OtherTag = "etherparse takes the type 0x9100 for a VLAN tag; no standard has it and no VLAN device of Linux takes it, so the product passes it as no IP";
    Macsec = "etherparse looks through an unencrypted MACsec tag; the product passes MACsec as no IP";
    ThirdTagCut = "etherparse wants a third tag's bytes; the product refuses by the type in front of them";
    ArpUnread = "etherparse wants a whole ARP packet; the product goes by the EtherType, and leaves ARP to the kernel";
    VersionOverType = "etherparse goes by the version in the IP header; the product goes by the EtherType, as kernels do, and the version must agree";
    ShortBeforeWrong = "of a header that is too short and wrong, etherparse says wrong; the product reads nothing before all fixed bytes are there";
    WrongBeforeShort = "of IPv4 options cut short and a total length that leaves no room for them, etherparse says cut, the product malformed";
    PayloadLengthZero = "etherparse takes an IPv6 payload length of 0 for `to the end of the slice`; RFC 8200 says the packet is empty, and so does Linux where no hop-by-hop options follow; where they do, the product refuses it as cut";
    AuthenticationInIpv4 = "etherparse looks through an authentication header in IPv4; the product takes it for the protocol (service `ah`) there, and reads none of it";
    HopByHopLater = "etherparse refuses hop-by-hop options that do not come first; the product looks through them, so that they hide no service";
    AuthenticationTooShort = "etherparse refuses an authentication header with a length field of 0, less than its fixed part; the product goes on behind the 8 bytes that this means, as the kernel's own walk does";
    BehindLaterFragment = "etherparse reads on behind the fragment header of a later fragment, where there is no header; the product stops";
    NinthHeaderCut = "etherparse wants the ninth header's bytes; the product refuses by the kind that the eighth announces";
    EighthHeaderCut = "etherparse says cut where the eighth header's length goes beyond the packet; the product has refused by then, as that header announces a ninth";
    TcpOffsetUnread = "etherparse checks TCP's data offset; the product needs only the fixed 20 bytes, and leaves the offset to the kernel";
    MessageUnread = "etherparse wants whole messages of ICMP and IGMP; the product tells them by the protocol number, and neighbour discovery by the first byte";
    SctpUnknown = "etherparse does not know SCTP, and finds the ports in 8 bytes; the product wants the 12 of the common header";
}

/// What the product is expected to say.
#[derive(Debug, Clone, Copy)]
pub struct Expected {
    /// Of the frame.
    pub opinion: Opinion,
    /// What it may owe to.
    because: u32,
}

impl Expected {
    /// The disagreements that the frame touches.
    pub fn because(&self) -> impl Iterator<Item = Disagreement> + use<> {
        let because = self.because;
        Disagreement::ALL.iter().copied().filter(move |disagreement| because >> *disagreement as u32 & 1 != 0)
    }
}

/// What the product should say where etherparse says `theirs`: the same, unless one of the disagreements applies.
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
        Opinion::Judged { source: header.source_addr().into(), payload }
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
        Opinion::Judged { source, payload }
    }

    /// Notes in what etherparse differs if it goes by the version in the header.
    fn version(&mut self, bytes: &[u8], version: u8) {
        match bytes.first().map(|first| first >> 4) {
            Some(other @ (4 | 6)) if other != version => self.add(Disagreement::VersionOverType),
            Some(_) if bytes.len() < if version == 4 { 20 } else { 40 } => self.add(Disagreement::ShortBeforeWrong),
            _ => {}
        }
    }

    /// Whether all of a header is there but its options, and its total length does not even reach these.
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
