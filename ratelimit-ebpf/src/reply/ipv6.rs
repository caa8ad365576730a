//! Replies over IPv6.

use aya_ebpf::programs::XdpContext;
use network_types::ip::Ipv6Hdr;
use ratelimit_common::identity::service::{ICMPV6, TCP};

use super::{
    checksum::{ERROR, Sum, Words, error, put, word, words},
    link, rate, tcp,
};
use crate::{packet::frame::Packet, parse::ipv6_extensions};

/// Destination unreachable, communication with destination administratively prohibited (RFC 4443, section 3.1).
const PROHIBITED: [u8; 2] = [1, 1];

/// Bytes of the payload that an error quotes: ports, or whatever else identifies the packet for its sender. The RFC
/// asks for as much as fits into 1,280 bytes. Such a short quote makes no flood larger.
const QUOTED: usize = 8;

/// Bytes of an error in front of the packet that it quotes.
const INSERTED: usize = Ipv6Hdr::LEN + ERROR;

type Address = [u8; 16];

/// Makes the frame, whose IPv6 header is at `offset`, a reply. Not inlined, so that the verifier walks through it once
/// for all numbers of tags, and for its stack.
#[inline(never)]
pub(super) fn answer(ctx: &XdpContext, offset: usize) -> bool {
    try_answer(ctx, Packet::of(ctx), offset).is_some()
}

#[inline(always)]
fn try_answer(ctx: &XdpContext, packet: Packet, offset: usize) -> Option<()> {
    let header: &Ipv6Hdr = packet.header(offset)?;
    let (protocol, payload) = (header.next_hdr, usize::from(header.payload_len()));
    let is_plain = header.version() == 6 && !is_in_front_of_more(protocol);
    let is_whole = offset + Ipv6Hdr::LEN + payload <= packet.length() as usize;
    if !is_plain || !is_whole || !is_of_one(header.src_addr) || !is_of_one(header.dst_addr) {
        return None;
    }
    if protocol == TCP {
        reset(ctx, packet, offset, payload)
    } else if payload >= QUOTED && (protocol != ICMPV6 || asks(&packet, offset)?) {
        refuse(ctx, packet, offset)
    } else {
        None
    }
}

/// Returns whether more headers follow, or nothing at all: all extension headers (RFC 7045, section 4), and no next
/// header (RFC 8200, section 4.7). An error could be behind them.
#[inline(always)]
fn is_in_front_of_more(protocol: u8) -> bool {
    ipv6_extensions::is_extension(protocol) || matches!(protocol, 50 | 59 | 135 | 139 | 140 | 253 | 254)
}

/// Returns whether an address can belong to another host: it is not unspecified, the loopback, or multicast (RFC 4291,
/// section 2.4).
#[inline(always)]
pub(super) fn is_of_one(address: Address) -> bool {
    u128::from_be_bytes(address) > 1 && address[0] != 0xff
}

/// Returns whether an ICMPv6 message may get a reply. Errors, whose kinds are below 128 (RFC 4443, section 2.1), and
/// neighbour discovery (RFC 4861, section 4) get none.
#[inline(always)]
fn asks(packet: &Packet, offset: usize) -> Option<bool> {
    let kind: &u8 = packet.header(offset + Ipv6Hdr::LEN)?;
    Some(matches!(*kind, 128..=132 | 138..))
}

#[inline(always)]
fn reset(ctx: &XdpContext, mut packet: Packet, offset: usize, length: usize) -> Option<()> {
    let begin = offset + Ipv6Hdr::LEN;
    let segment = tcp::reset(words(&packet, begin)?, length)?;
    rate::take().then_some(())?;
    let sum = ends(&packet, offset)?.add_pseudo(tcp::LENGTH as u16, TCP);
    link::turn(&mut packet)?;
    put(&mut packet, offset, start::<{ tcp::LENGTH }>(TCP))?;
    turn(&mut packet, offset, offset)?;
    put(&mut packet, begin, tcp::sealed(segment, sum))?;
    link::end(ctx, packet, begin + tcp::LENGTH)
}

#[inline(always)]
fn refuse(ctx: &XdpContext, mut packet: Packet, offset: usize) -> Option<()> {
    const LENGTH: usize = ERROR + Ipv6Hdr::LEN + QUOTED;
    rate::take().then_some(())?;
    link::turn(&mut packet)?;
    let mut packet = link::insert::<INSERTED>(ctx)?;
    let sum = ends(&packet, offset + INSERTED)?.add_pseudo(LENGTH as u16, ICMPV6);
    let sum = sum.add_bytes::<{ Ipv6Hdr::LEN + QUOTED }>(&packet, offset + INSERTED)?;
    put(&mut packet, offset, start::<LENGTH>(ICMPV6))?;
    turn(&mut packet, offset + INSERTED, offset)?;
    put(&mut packet, offset + Ipv6Hdr::LEN, error(PROHIBITED, sum))?;
    link::end(ctx, packet, offset + Ipv6Hdr::LEN + LENGTH)
}

/// Where addresses begin in the header.
pub(super) const ADDRESSES: usize = 8;

/// The sum of the addresses in the header at `offset`, which does not say which is whose.
#[inline(always)]
pub(super) fn ends(packet: &Packet, offset: usize) -> Option<Sum> {
    Sum::default().add_bytes::<{ 2 * size_of::<Address>() }>(packet, offset + ADDRESSES)
}

/// Writes the addresses of a reply to the header at `from` into the header at `to`.
#[inline(always)]
pub(super) fn turn(packet: &mut Packet, from: usize, to: usize) -> Option<()> {
    let bytes: &[[u8; 8]; 4] = packet.header(from + ADDRESSES)?;
    let [a, b, c, d] = bytes.map(u64::from_ne_bytes);
    packet.put(to + ADDRESSES, [c, d, a, b].map(u64::to_ne_bytes))
}

/// Returns the header of a reply with `PAYLOAD` bytes, without the addresses.
#[inline(always)]
pub(super) fn start<const PAYLOAD: usize>(protocol: u8) -> Words<2> {
    let [high, low] = (PAYLOAD as u16).to_be_bytes();
    [word([0x60, 0, 0, 0]), word([high, low, protocol, 64])]
}
