//! Replies over IPv4.

use aya_ebpf::programs::XdpContext;
use network_types::ip::Ipv4Hdr;
use ratelimit_common::identity::service::{ICMP, TCP};

use super::{
    checksum::{ERROR, Sum, Words, error, put, word, words},
    link, rate, tcp,
};
use crate::{packet::frame::Packet, parse::parser::LATER_FRAGMENT};

/// Version 4, five words.
const PLAIN: u8 = 0x45;

// The kinds of ICMP that ask something (RFC 792).
const ECHO: u8 = 8;
const TIMESTAMP: u8 = 13;

/// Destination unreachable, communication administratively prohibited (RFC 792; RFC 1812, section 5.2.7.1).
const PROHIBITED: [u8; 2] = [3, 13];

/// Where addresses begin in the header.
pub(super) const ADDRESSES: usize = 12;

/// Bytes of the payload that an error quotes (RFC 792): ports, or whatever else identifies the packet for its sender.
const QUOTED: usize = 8;

/// Bytes of an error in front of the packet that it quotes.
const INSERTED: usize = Ipv4Hdr::LEN + ERROR;

/// Makes the frame, whose IPv4 header is at `offset`, a reply. Not inlined, so that the verifier walks through it once
/// for all numbers of tags, and for its stack.
#[inline(never)]
pub(super) fn answer(ctx: &XdpContext, offset: usize) -> bool {
    try_answer(ctx, Packet::of(ctx), offset).is_some()
}

#[inline(always)]
fn try_answer(ctx: &XdpContext, packet: Packet, offset: usize) -> Option<()> {
    let header: &Ipv4Hdr = packet.header(offset)?;
    let payload = usize::from(header.tot_len()).checked_sub(Ipv4Hdr::LEN)?;
    let is_plain = header.vihl == PLAIN && u16::from_be_bytes(header.frags) & LATER_FRAGMENT == 0;
    let is_whole = offset + Ipv4Hdr::LEN + payload <= packet.length() as usize;
    let [source, destination] = words(&packet, offset + ADDRESSES)?;
    if !is_plain || !is_whole || !is_of_one(source) || !is_of_one(destination) {
        return None;
    }
    let ends = [destination, source];
    if header.proto == TCP {
        reset(ctx, packet, offset, payload, ends)
    } else if payload >= QUOTED && (header.proto != ICMP || asks(&packet, offset)?) {
        refuse(ctx, packet, offset, ends)
    } else {
        None
    }
}

/// Returns whether an address can belong to another host. Addresses of this network or host, multicast, reserved and
/// broadcast addresses cannot (RFC 1122, section 3.2.1.3; RFC 1112, section 4).
#[inline(always)]
pub(super) fn is_of_one(address: u32) -> bool {
    !matches!(address.to_ne_bytes()[0], 0 | 127 | 224..)
}

/// Returns whether an ICMP message is a request. Errors and replies get no reply.
#[inline(always)]
fn asks(packet: &Packet, offset: usize) -> Option<bool> {
    let kind: &u8 = packet.header(offset + Ipv4Hdr::LEN)?;
    Some(matches!(*kind, ECHO | TIMESTAMP))
}

#[inline(always)]
fn reset(ctx: &XdpContext, mut packet: Packet, offset: usize, length: usize, ends: Words<2>) -> Option<()> {
    let begin = offset + Ipv4Hdr::LEN;
    let segment = tcp::reset(words(&packet, begin)?, length)?;
    rate::take().then_some(())?;
    let sum = Sum::default().add(ends[0]).add(ends[1]).add_pseudo(tcp::LENGTH as u16, TCP);
    link::turn(&mut packet)?;
    put(&mut packet, offset, header::<{ tcp::LENGTH }>(TCP, ends))?;
    put(&mut packet, begin, tcp::sealed(segment, sum))?;
    link::end(ctx, packet, begin + tcp::LENGTH)
}

#[inline(always)]
fn refuse(ctx: &XdpContext, mut packet: Packet, offset: usize, ends: Words<2>) -> Option<()> {
    const LENGTH: usize = INSERTED + QUOTED;
    rate::take().then_some(())?;
    link::turn(&mut packet)?;
    let mut packet = link::insert::<INSERTED>(ctx)?;
    let sum = Sum::default().add_bytes::<{ Ipv4Hdr::LEN + QUOTED }>(&packet, offset + INSERTED)?;
    put(&mut packet, offset, header::<LENGTH>(ICMP, ends))?;
    put(&mut packet, offset + Ipv4Hdr::LEN, error(PROHIBITED, sum))?;
    link::end(ctx, packet, offset + Ipv4Hdr::LEN + LENGTH)
}

/// Returns the header of a reply with `PAYLOAD` bytes, from the first address to the second. It must not be fragmented,
/// so it needs no number (RFC 6864, section 4.1). Its time to live is the recommended one (RFC 1700).
#[inline(always)]
pub(super) fn header<const PAYLOAD: usize>(protocol: u8, [source, destination]: Words<2>) -> Words<5> {
    let [high, low] = ((Ipv4Hdr::LEN + PAYLOAD) as u16).to_be_bytes();
    let (start, fragment) = (word([PLAIN, 0, high, low]), word([0, 0, 0x40, 0]));
    let sum = Sum::default().add(start).add(fragment).add(word([64, protocol, 0, 0]));
    let [first, second] = sum.add(source).add(destination).checksum();
    [start, fragment, word([64, protocol, first, second]), source, destination]
}
