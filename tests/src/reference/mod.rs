//! What the crate etherparse makes of a frame: the other opinion, to compare the product's with.

pub mod answer;
pub mod disagreement;
pub mod extensions;

use std::{iter, net::IpAddr};

use etherparse::{
    Icmpv4Slice, Icmpv6Slice, IgmpSlice, IpNumber, Ipv6ExtensionSlice, Ipv6ExtensionsSlice, LaxIpv6Slice, LaxNetSlice,
    LaxSlicedPacket, LenSource, TcpSlice, UdpSlice,
    err::{Layer, packet::SliceError, tcp::HeaderSliceError},
    ip_number::{ICMP, IGMP, IPV6_ICMP, SCTP, TCP, UDP},
};
use ratelimit_common::identity::service::Transport;

/// VLAN tags and extension headers that the product says it looks through. No matter of parsing, and so no disagreement.
pub const MOST_TAGS: usize = 2;
/// See [`MOST_TAGS`].
pub const MOST_HEADERS: usize = 8;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opinion {
    /// Neither IP nor ARP.
    NotIp,
    /// ARP.
    Arp,
    /// IPv6 neighbour discovery on the own link.
    NeighbourDiscovery,
    /// A header that contradicts itself.
    Malformed,
    /// Shorter than its headers, or than the length that they tell.
    Truncated,
    /// More than [`MOST_TAGS`].
    TooManyTags,
    /// More than [`MOST_HEADERS`].
    TooManyHeaders,
    /// An IP packet that is whole.
    Judged {
        /// Who sent it.
        source: IpAddr,
        /// What it carries.
        payload: Payload,
    },
}

/// What an IP packet carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload {
    /// A part of something, without its header.
    LaterFragment,
    /// A protocol without ports.
    Protocol(u8),
    /// A protocol with ports.
    Port {
        /// Which.
        transport: Transport,
        /// The destination.
        port: u16,
        /// SYN without ACK.
        is_new: bool,
    },
    /// A protocol whose header ends too early.
    Cut,
    /// A protocol whose header contradicts itself.
    Contradictory,
}

impl Opinion {
    /// Every kind of opinion by name, those on payloads apart.
    pub const NAMES: [&str; 12] = [
        "not IP",
        "ARP",
        "neighbour discovery",
        "malformed",
        "truncated",
        "too many tags",
        "too many headers",
        "later fragment",
        "protocol",
        "port",
        "new connection",
        "payload's header cut",
    ];

    /// Its kind's place in [`Self::NAMES`].
    #[must_use]
    pub fn kind(&self) -> usize {
        match self {
            Self::NotIp => 0,
            Self::Arp => 1,
            Self::NeighbourDiscovery => 2,
            Self::Malformed | Self::Judged { payload: Payload::Contradictory, .. } => 3,
            Self::Truncated => 4,
            Self::TooManyTags => 5,
            Self::TooManyHeaders => 6,
            Self::Judged { payload: Payload::LaterFragment, .. } => 7,
            Self::Judged { payload: Payload::Protocol(_), .. } => 8,
            Self::Judged { payload: Payload::Port { is_new: false, .. }, .. } => 9,
            Self::Judged { payload: Payload::Port { is_new: true, .. }, .. } => 10,
            Self::Judged { payload: Payload::Cut, .. } => 11,
        }
    }
}

/// What etherparse makes of a frame.
#[must_use]
pub fn reference(frame: &[u8]) -> Opinion {
    let Ok(packet) = LaxSlicedPacket::from_ethernet(frame) else { return Opinion::Truncated };
    if packet.link_exts.len() > MOST_TAGS {
        return Opinion::TooManyTags;
    }
    let defect = match &packet.stop_err {
        Some((error, layer)) if !is_of_payload(*layer) => {
            Some(if matches!(error, SliceError::Len(_)) { Opinion::Truncated } else { Opinion::Malformed })
        }
        _ => None,
    };
    match &packet.net {
        None => defect.unwrap_or(Opinion::NotIp),
        Some(LaxNetSlice::Arp(_)) => Opinion::Arp,
        Some(LaxNetSlice::Ipv4(ip)) => {
            if ip.payload().incomplete {
                return Opinion::Truncated;
            }
            // The header's own length says less than the header has.
            if ip.payload().len_source == LenSource::Slice {
                return Opinion::Malformed;
            }
            let source = ip.header().source_addr().into();
            defect.unwrap_or_else(|| {
                let is_later = ip.header().fragments_offset().value() != 0;
                judged(source, is_later, ip.payload_ip_number(), ip.payload().payload)
            })
        }
        Some(LaxNetSlice::Ipv6(ip)) => defect_of_ipv6(ip).or(defect).unwrap_or_else(|| {
            if ip.extensions().is_empty()
                && ip.header().hop_limit() == u8::MAX
                && ip.payload().ip_number == IPV6_ICMP
                && Icmpv6Slice::from_slice(ip.payload().payload).is_ok_and(|icmp| is_discovery(icmp.type_u8()))
            {
                return Opinion::NeighbourDiscovery;
            }
            let is_later = headers(ip.extensions()).any(|header| is_later_fragment(&header));
            judged(ip.header().source_addr().into(), is_later, ip.payload().ip_number, ip.payload().payload)
        }),
    }
}

fn defect_of_ipv6(ip: &LaxIpv6Slice<'_>) -> Option<Opinion> {
    if ip.payload().incomplete {
        return Some(Opinion::Truncated);
    }
    (headers(ip.extensions()).count() > MOST_HEADERS).then_some(Opinion::TooManyHeaders)
}

/// The headers in a slice. etherparse's own iterator does not stop where lax parsing has, and reads on behind the slice.
pub(crate) fn headers<'a>(
    extensions: &Ipv6ExtensionsSlice<'a>,
) -> impl Iterator<Item = Ipv6ExtensionSlice<'a>> + use<'a> {
    let (mut headers, mut left) = (extensions.clone().into_iter(), extensions.slice().len());
    iter::from_fn(move || {
        let header = (left > 0).then(|| headers.next())??;
        left -= match &header {
            Ipv6ExtensionSlice::HopByHop(header)
            | Ipv6ExtensionSlice::Routing(header)
            | Ipv6ExtensionSlice::DestinationOptions(header) => header.slice().len(),
            Ipv6ExtensionSlice::Fragment(header) => header.slice().len(),
            Ipv6ExtensionSlice::Authentication(header) => header.slice().len(),
        };
        Some(header)
    })
}

fn judged(source: IpAddr, is_later: bool, protocol: IpNumber, bytes: &[u8]) -> Opinion {
    Opinion::Judged { source, payload: if is_later { Payload::LaterFragment } else { payload(protocol, bytes) } }
}

/// Whether a header's packet is a fragment that is not the first.
pub(crate) fn is_later_fragment(header: &Ipv6ExtensionSlice<'_>) -> bool {
    matches!(header, Ipv6ExtensionSlice::Fragment(fragment) if fragment.fragment_offset().value() != 0)
}

/// Router and neighbour solicitation and advertisement, and redirect.
pub(crate) fn is_discovery(message: u8) -> bool {
    use etherparse::icmpv6::{TYPE_REDIRECT_MESSAGE, TYPE_ROUTER_SOLICITATION};
    (TYPE_ROUTER_SOLICITATION..=TYPE_REDIRECT_MESSAGE).contains(&message)
}

/// What etherparse makes of what a packet carries. It also reads what a first fragment has, which a whole packet's slice leaves out.
pub(crate) fn payload(protocol: IpNumber, bytes: &[u8]) -> Payload {
    let port = |transport, port, is_new| Payload::Port { transport, port, is_new };
    let is_whole = match protocol {
        TCP => {
            return match TcpSlice::from_slice(bytes) {
                Ok(tcp) => port(Transport::Tcp, tcp.destination_port(), tcp.syn() && !tcp.ack()),
                Err(HeaderSliceError::Len(_)) => Payload::Cut,
                Err(HeaderSliceError::Content(_)) => Payload::Contradictory,
            };
        }
        // It does not know SCTP, whose ports lie where those of UDP are.
        UDP | SCTP => {
            let transport = if protocol == UDP { Transport::Udp } else { Transport::Sctp };
            let udp = UdpSlice::from_slice_lax(bytes);
            return udp.map_or(Payload::Cut, |udp| port(transport, udp.destination_port(), false));
        }
        ICMP => Icmpv4Slice::from_slice(bytes).is_ok(),
        IPV6_ICMP => Icmpv6Slice::from_slice(bytes).is_ok(),
        IGMP => IgmpSlice::from_slice(bytes).is_ok(),
        _ => true,
    };
    if is_whole { Payload::Protocol(protocol.0) } else { Payload::Cut }
}

/// Whether parsing has stopped only behind the IP headers.
fn is_of_payload(layer: Layer) -> bool {
    matches!(
        layer,
        Layer::TcpHeader
            | Layer::UdpHeader
            | Layer::UdpPayload
            | Layer::Icmpv4
            | Layer::Icmpv4Timestamp
            | Layer::Icmpv4TimestampReply
            | Layer::Icmpv6
            | Layer::Igmp
    )
}
