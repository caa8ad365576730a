//! Reads all headers of a packet.

use aya_ebpf::programs::XdpContext;
use network_types::eth::EtherType;
use ratelimit_common::{
    identity::{class::Classes, source::Source},
    reason::Reason,
};

use crate::{
    packet::{headers::Frame, scattered::Scattered, transport::Transport},
    parse::{
        ethernet, ipv4, ipv6,
        outcome::{Parsed, Stop, no_source, unreadable},
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
    let (ether_type, offset) = ethernet::network(frame).ok_or_else(|| no_source(frame))?;
    if ether_type == EtherType::Ipv4 as u16 {
        ipv4::parse(frame, offset)
    } else if ether_type == EtherType::Ipv6 as u16 {
        ipv6::parse::<true>(frame, offset)
    } else if ether_type == EtherType::Arp as u16 {
        Err(Reason::LinkDiscovery.into())
    } else if ethernet::is_tag(ether_type) {
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
        4 => ipv4::parse(frame, 0),
        6 if ethernet::may_be_tag(*frame.read::<[u8; 8]>(0).ok_or_else(|| no_source(frame))?) => {
            Err(unreadable(Reason::Malformed).into())
        }
        6 => ipv6::parse::<false>(frame, 0),
        _ => Err(unreadable(Reason::Malformed).into()),
    }
}
