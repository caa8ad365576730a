//! etherparse's opinion about a frame, which tests compare with the product's.

pub mod disagreement;
pub mod expected;
pub mod extensions;
pub mod reply;

use std::{iter, net::IpAddr};

use etherparse::{
    Icmpv4Slice, Icmpv6Slice, IgmpSlice, IpNumber, Ipv6ExtensionSlice, Ipv6ExtensionsSlice, LaxIpv6Slice, LaxNetSlice,
    LaxSlicedPacket, LenSource, TcpSlice, UdpSlice,
    err::{Layer, packet::SliceError, tcp::HeaderSliceError},
    ip_number::{ICMP, IGMP, IPV6_ICMP, SCTP, TCP, UDP},
};
use ratelimit_common::identity::service::Transport;

/// Number of VLAN tags that the product documents to parse. It is a limit of the product, so it is no disagreement.
pub const MOST_TAGS: usize = 2;
/// Number of extension headers that the product documents to parse.
pub const MOST_HEADERS: usize = 8;

/// Classification of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opinion {
    /// Neither IP nor ARP.
    NotIp,
    /// ARP.
    Arp,
    /// IPv6 neighbour discovery on the link.
    NeighbourDiscovery,
    /// A header with contradictory fields.
    Malformed,
    /// A frame shorter than its headers or their lengths.
    Truncated,
    /// More than [`MOST_TAGS`] tags.
    TooManyTags,
    /// More than [`MOST_HEADERS`] extension headers.
    TooManyHeaders,
    /// A complete IP packet.
    Packet {
        /// The source address.
        source: IpAddr,
        /// The payload.
        payload: Payload,
    },
}

/// Payload of an IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload {
    /// A later fragment without the transport header.
    LaterFragment,
    /// A protocol without ports.
    Protocol(u8),
    /// A protocol with ports.
    Port {
        /// The protocol.
        transport: Transport,
        /// The destination port.
        port: u16,
        /// Whether it is SYN without ACK.
        is_new: bool,
    },
    /// A protocol whose header is cut.
    Cut,
    /// A protocol whose header has contradictory fields.
    Contradictory,
}

impl Opinion {
    /// Names of all opinions, with payloads separately.
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

    /// Returns the index in [`Self::NAMES`].
    #[must_use]
    pub fn kind(&self) -> usize {
        match self {
            Self::NotIp => 0,
            Self::Arp => 1,
            Self::NeighbourDiscovery => 2,
            Self::Malformed | Self::Packet { payload: Payload::Contradictory, .. } => 3,
            Self::Truncated => 4,
            Self::TooManyTags => 5,
            Self::TooManyHeaders => 6,
            Self::Packet { payload: Payload::LaterFragment, .. } => 7,
            Self::Packet { payload: Payload::Protocol(_), .. } => 8,
            Self::Packet { payload: Payload::Port { is_new: false, .. }, .. } => 9,
            Self::Packet { payload: Payload::Port { is_new: true, .. }, .. } => 10,
            Self::Packet { payload: Payload::Cut, .. } => 11,
        }
    }
}

/// Parses a frame with etherparse.
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
            // The length field is smaller than the header.
            if ip.payload().len_source == LenSource::Slice {
                return Opinion::Malformed;
            }
            let source = ip.header().source_addr().into();
            defect.unwrap_or_else(|| {
                let is_later = ip.header().fragments_offset().value() != 0;
                opinion_about(source, is_later, ip.payload_ip_number(), ip.payload().payload)
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
            opinion_about(ip.header().source_addr().into(), is_later, ip.payload().ip_number, ip.payload().payload)
        }),
    }
}

fn defect_of_ipv6(ip: &LaxIpv6Slice<'_>) -> Option<Opinion> {
    if ip.payload().incomplete {
        return Some(Opinion::Truncated);
    }
    (headers(ip.extensions()).count() > MOST_HEADERS).then_some(Opinion::TooManyHeaders)
}

/// Returns the headers in a slice. etherparse's own iterator does not stop where lax parsing stopped, and reads after
/// the slice.
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

fn opinion_about(source: IpAddr, is_later: bool, protocol: IpNumber, bytes: &[u8]) -> Opinion {
    Opinion::Packet { source, payload: if is_later { Payload::LaterFragment } else { payload(protocol, bytes) } }
}

/// Returns whether the packet is a fragment other than the first.
pub(crate) fn is_later_fragment(header: &Ipv6ExtensionSlice<'_>) -> bool {
    matches!(header, Ipv6ExtensionSlice::Fragment(fragment) if fragment.fragment_offset().value() != 0)
}

/// Returns whether the type is a router or neighbour solicitation or advertisement, or a redirect.
pub(crate) fn is_discovery(message: u8) -> bool {
    use etherparse::icmpv6::{TYPE_REDIRECT_MESSAGE, TYPE_ROUTER_SOLICITATION};
    (TYPE_ROUTER_SOLICITATION..=TYPE_REDIRECT_MESSAGE).contains(&message)
}

/// Parses a payload with etherparse, including that of a first fragment.
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
        // etherparse does not parse SCTP. Its ports have the same offset as those of UDP.
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

/// Returns whether parsing stopped after the IP headers.
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
