//! Reads all headers of a packet: Ethernet with its VLAN tags, and IPv4 or IPv6.

use aya_ebpf::programs::XdpContext;
use network_types::{
    eth::{EthHdr, EtherType},
    ip::{Ipv4Hdr, Ipv6Hdr},
};
use ratelimit_common::{
    identity::{class::Classes, service::ICMPV6, source::Source},
    reason::Reason,
};

use crate::{
    bpf::settings,
    packet::{
        context::Transport,
        frame::{Frame, Scattered},
    },
    parse::{
        ipv6_extensions::{self, Walked},
        outcome::{Headers, Parsed, Payload, Stop, cut_off, defective, no_source, parsed, unreadable},
    },
};

/// Reads the headers of a packet. It begins with an Ethernet header, or with the IP header if `ETHERNET` is false.
///
/// # Errors
///
/// Returns [`Stop`] for a packet that has no source, is dropped at once, or lies in other buffers.
/// [`Reason::LinkDiscovery`] still has to pass its cap.
#[inline(always)]
pub fn parse<const ETHERNET: bool>(frame: &impl Frame) -> Result<Parsed, Stop> {
    if ETHERNET { behind_ethernet(frame) } else { raw_ip(frame) }
}

/// Reads the headers of a packet that [`parse`] could not read from the first buffer. Returns the bytes of the whole
/// frame with the result.
#[inline(always)]
pub fn parse_scattered<const ETHERNET: bool>(ctx: &XdpContext) -> (Result<Parsed, Reason>, u32) {
    let (mut source, mut transport) = (Source::v4([0; 4]), Transport::NONE);
    let found = find_scattered::<ETHERNET>(ctx, &mut source, &mut transport);
    let parsed = match found >> LENGTH_BITS & NOTHING {
        NOTHING => Ok(Parsed { source, classes: (found >> CLASSES_SHIFT) as Classes, transport }),
        // SAFETY: `find_scattered` has put a reason there.
        reason => Err(unsafe { core::mem::transmute::<u32, Reason>(reason as u32) }),
    };
    (parsed, (found & ((1 << LENGTH_BITS) - 1)) as u32)
}

/// Bits of the length in a result of [`find_scattered`]. Above it are eight of the reason, and then the classes.
const LENGTH_BITS: u32 = 24;
const CLASSES_SHIFT: u32 = 32;
/// Stands for no reason.
const NOTHING: u64 = 0xff;
const _: () = assert!((Reason::ALL.len() as u64) < NOTHING);

/// Does the work of [`parse_scattered`]. It is a function of its own, so that the way of the usual frames stays short.
/// Such a function returns one number.
#[inline(never)]
fn find_scattered<const ETHERNET: bool>(ctx: &XdpContext, source: &mut Source, transport: &mut Transport) -> u64 {
    let frame = Scattered::of(ctx);
    let found = match parse::<ETHERNET>(&frame) {
        Ok(parsed) => {
            (*source, *transport) = (parsed.source, parsed.transport);
            u64::from(parsed.classes) << CLASSES_SHIFT | NOTHING << LENGTH_BITS
        }
        Err(Stop::Because(reason)) => (reason as u64) << LENGTH_BITS,
        // The frame ends within a header.
        Err(Stop::Unread) => (Reason::Truncated as u64) << LENGTH_BITS,
    };
    found | u64::from(frame.length())
}

#[inline(always)]
fn behind_ethernet(frame: &impl Frame) -> Result<Parsed, Stop> {
    let (ether_type, offset) = network(frame).ok_or_else(|| no_source(frame))?;
    if ether_type == EtherType::Ipv4 as u16 {
        parse_ipv4(frame, offset)
    } else if ether_type == EtherType::Ipv6 as u16 {
        parse_ipv6::<true>(frame, offset)
    } else if ether_type == EtherType::Arp as u16 {
        Err(Reason::LinkDiscovery.into())
    } else if is_tag(ether_type) {
        Err(Reason::TooManyTags.into())
    } else {
        Err(Reason::NotIp.into())
    }
}

/// No header tells what such a packet is. So everything but IP is malformed, and what may be a VLAN tag: otherwise, a
/// tunnel's peer could hide an IP packet behind a tag, which the kernel removes.
#[inline(always)]
fn raw_ip(frame: &impl Frame) -> Result<Parsed, Stop> {
    // LLVM compares pointers for a single byte in a way that the verifier does not understand.
    let [first, _] = *frame.read::<[u8; 2]>(0).ok_or_else(|| no_source(frame))?;
    match first >> 4 {
        4 => parse_ipv4(frame, 0),
        6 if may_be_tag(*frame.read::<[u8; 8]>(0).ok_or_else(|| no_source(frame))?) => {
            Err(unreadable(Reason::Malformed).into())
        }
        6 => parse_ipv6::<false>(frame, 0),
        _ => Err(unreadable(Reason::Malformed).into()),
    }
}

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
fn may_be_tag([_, _, high, low, version, _, next_high, next_low]: [u8; 8]) -> bool {
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
fn is_tag(ether_type: u16) -> bool {
    ether_type == EtherType::Ieee8021q as u16 || ether_type == EtherType::Ieee8021ad as u16
}

/// Bits of the flags and the fragment offset that only later fragments have (RFC 791, section 3.1).
pub(crate) const LATER_FRAGMENT: u16 = 0x1fff;

/// Reads the IPv4 header at `offset`, and the services behind it.
///
/// # Errors
///
/// Returns [`Stop`] for a packet that has no source, is dropped at once, or lies in other buffers.
#[inline(always)]
fn parse_ipv4(frame: &impl Frame, offset: usize) -> Result<Parsed, Stop> {
    parsed(ipv4_headers(frame, offset)?, frame, offset, false)
}

/// Reads the IPv4 header at `offset`.
///
/// # Errors
///
/// As for [`parse_ipv4`].
#[inline(always)]
fn ipv4_headers(frame: &impl Frame, offset: usize) -> Result<Headers, Stop> {
    let header = frame.read::<Ipv4Hdr>(offset).ok_or_else(|| no_source(frame))?;
    if header.version() != 4 {
        return Err(unreadable(Reason::Malformed).into());
    }
    let source = Source::v4(header.src_addr);
    let (header_length, total) = (usize::from(header.ihl()), usize::from(header.tot_len()));
    if header_length < Ipv4Hdr::LEN || total < header_length {
        return defective(source, Reason::Malformed);
    }
    let end = offset + total;
    if end > frame.length() as usize {
        return cut_off(frame, source);
    }
    if u16::from_be_bytes(header.frags) & LATER_FRAGMENT != 0 {
        return Ok(Headers { source, payload: None });
    }
    Ok(Headers { source, payload: Some(Payload { protocol: header.proto, begin: offset + header_length, end }) })
}

/// Reads the IPv6 header at `offset`, its extension headers, and the services behind them. Neighbour discovery is exempt
/// only on `ETHERNET`: through a tunnel it comes from anywhere.
///
/// # Errors
///
/// Returns [`Stop`] for a packet that has no source, is dropped at once, or lies in other buffers.
#[inline(always)]
fn parse_ipv6<const ETHERNET: bool>(frame: &impl Frame, offset: usize) -> Result<Parsed, Stop> {
    parsed(ipv6_headers::<ETHERNET>(frame, offset)?, frame, offset, true)
}

/// Reads the IPv6 header at `offset`, and the extension headers behind it.
///
/// # Errors
///
/// As for [`parse_ipv6`].
#[inline(always)]
fn ipv6_headers<const ETHERNET: bool>(frame: &impl Frame, offset: usize) -> Result<Headers, Stop> {
    let header = frame.read::<Ipv6Hdr>(offset).ok_or_else(|| no_source(frame))?;
    if header.version() != 6 {
        return Err(unreadable(Reason::Malformed).into());
    }
    let source = Source::v6(header.src_addr, 128);
    let begin = offset + Ipv6Hdr::LEN;
    let end = begin + usize::from(header.payload_len());
    if end > frame.length() as usize {
        return cut_off(frame, source);
    }
    let mut payload = Payload { protocol: header.next_hdr, begin, end };
    if ipv6_extensions::is_extension(header.next_hdr) {
        match Walked::of(frame, begin, end, header.next_hdr) {
            Walked::Payload { protocol, begin } => (payload.protocol, payload.begin) = (protocol, begin),
            Walked::LaterFragment => return Ok(Headers { source, payload: None }),
            // Like cut-off ports: the host must not be the first to see the service of a fragment.
            Walked::Truncated if settings::has_services() => return Err(Reason::Truncated.into()),
            Walked::Truncated => return defective(source, Reason::Truncated),
            Walked::TooMany => return Err(Reason::TooManyHeaders.into()),
            Walked::Unread => return Err(Stop::Unread),
        }
    } else if ETHERNET
        && header.next_hdr == ICMPV6
        && header.hop_limit == u8::MAX
        && is_neighbour_discovery(frame, begin, end)?
    {
        return Err(Reason::LinkDiscovery.into());
    }
    Ok(Headers { source, payload: Some(payload) })
}

/// Returns whether the payload is a router or neighbour solicitation or advertisement, or a redirect (RFC 4861, section
/// 4). A hop limit of 255 proves that it comes from this link. Behind an extension header it is not exempt.
#[inline(always)]
fn is_neighbour_discovery(frame: &impl Frame, begin: usize, end: usize) -> Result<bool, Stop> {
    if end == begin {
        return Ok(false);
    }
    let kind = frame.read::<u8>(begin).ok_or(Stop::Unread)?;
    Ok(matches!(*kind, 133..=137))
}
