//! Turns a first SYN into the SYN-ACK with a cookie. It is never longer than the SYN.

use aya_ebpf::{helpers::bpf_check_mtu, programs::XdpContext};
use network_types::{
    eth::EtherType,
    ip::{Ipv4Hdr, Ipv6Hdr},
};
use ratelimit_common::identity::service::TCP;

use super::{
    checksum::{Sum, put, words},
    ipv4, ipv6, link, tcp,
};
use crate::{maps::control, packet::frame::Packet, parse::parser};

/// Bytes of the option with the maximum segment size.
const OPTION: usize = 4;
/// Bytes of a SYN-ACK with it.
const LENGTH: usize = tcp::LENGTH + OPTION;

/// Turns the frame into the SYN-ACK for `XDP_TX`. If it returns `false`, the frame must be dropped: parts of it may be
/// overwritten.
///
/// `length` is that of the whole frame, in all buffers.
#[inline(never)]
#[must_use]
pub fn send_back(ctx: &XdpContext, length: u32, cookie: u32) -> bool {
    answer(ctx, Packet::of(ctx), length, cookie).is_some()
}

#[inline(always)]
fn answer(ctx: &XdpContext, packet: Packet, length: u32, cookie: u32) -> Option<()> {
    // The end that is cut off must lie in the first buffer.
    if packet.length() != length || !link::is_for_one(&packet)? {
        return None;
    }
    let (ether_type, offset) = parser::network(&packet)?;
    if ether_type == EtherType::Ipv4 as u16 {
        over_ipv4(ctx, offset, cookie).then_some(())
    } else if ether_type == EtherType::Ipv6 as u16 {
        over_ipv6(ctx, offset, cookie).then_some(())
    } else {
        None
    }
}

/// Answers a SYN with any options of IPv4. Not inlined, so that the verifier walks through it once for all numbers of
/// tags.
#[inline(never)]
fn over_ipv4(ctx: &XdpContext, offset: usize, cookie: u32) -> bool {
    try_ipv4(ctx, Packet::of(ctx), offset, cookie).is_some()
}

#[inline(always)]
fn try_ipv4(ctx: &XdpContext, mut packet: Packet, offset: usize, cookie: u32) -> Option<()> {
    let first: u8 = *packet.header(offset)?;
    let begin = offset + usize::from(first & 0xf) * 4;
    let [source, destination] = words(&packet, offset + ipv4::ADDRESSES)?;
    if !ipv4::is_of_one(source) || !ipv4::is_of_one(destination) {
        return None;
    }
    let (ends, header) = ([destination, source], words(&packet, begin)?);
    let sum = Sum::default().add(destination).add(source);
    link::turn(&mut packet)?;
    let begin = offset + Ipv4Hdr::LEN;
    if has_options(header) {
        put(&mut packet, offset, ipv4::header::<LENGTH>(TCP, ends))?;
        long(ctx, packet, begin, header, cookie, Ipv4Hdr::LEN, sum)
    } else {
        put(&mut packet, offset, ipv4::header::<{ tcp::LENGTH }>(TCP, ends))?;
        short(ctx, packet, begin, header, cookie, sum)
    }
}

/// Answers a SYN without extension headers.
#[inline(never)]
fn over_ipv6(ctx: &XdpContext, offset: usize, cookie: u32) -> bool {
    try_ipv6(ctx, Packet::of(ctx), offset, cookie).is_some()
}

#[inline(always)]
fn try_ipv6(ctx: &XdpContext, mut packet: Packet, offset: usize, cookie: u32) -> Option<()> {
    let ip: &Ipv6Hdr = packet.header(offset)?;
    if ip.next_hdr != TCP || !ipv6::is_of_one(ip.src_addr) || !ipv6::is_of_one(ip.dst_addr) {
        return None;
    }
    let begin = offset + Ipv6Hdr::LEN;
    let (sum, header) = (ipv6::ends(&packet, offset)?, words(&packet, begin)?);
    link::turn(&mut packet)?;
    if has_options(header) {
        put(&mut packet, offset, ipv6::start::<LENGTH>(TCP))?;
        ipv6::turn(&mut packet, offset, offset)?;
        long(ctx, packet, begin, header, cookie, Ipv6Hdr::LEN, sum)
    } else {
        put(&mut packet, offset, ipv6::start::<{ tcp::LENGTH }>(TCP))?;
        ipv6::turn(&mut packet, offset, offset)?;
        short(ctx, packet, begin, header, cookie, sum)
    }
}

/// Returns whether a header has room for the option.
#[inline(always)]
fn has_options([_, _, _, control, _]: [u32; 5]) -> bool {
    control.to_ne_bytes()[0] >> 4 > (tcp::LENGTH / 4) as u8
}

/// Ends the answer to a SYN with options. It says the largest segment that fits into a frame of the interface, and that
/// every route accepts.
#[inline(always)]
fn long(
    ctx: &XdpContext,
    mut packet: Packet,
    begin: usize,
    header: [u32; 5],
    cookie: u32,
    ip: usize,
    sum: Sum,
) -> Option<()> {
    let mut mtu = 0_u32;
    // SAFETY: the context is the one that the kernel has given. It writes the number, and compares nothing that counts.
    let _ = unsafe { bpf_check_mtu(ctx.ctx.cast(), 0, &raw mut mtu, 0, 0) };
    let size = (mtu as usize).checked_sub(ip + tcp::LENGTH)?.min(usize::from(u16::MAX)) as u32;
    let [over_ipv4, over_ipv6] = control::get()?.segments;
    let accepted = if ip == Ipv6Hdr::LEN { over_ipv6 } else { over_ipv4 };
    let option = tcp::maximum_segment(if accepted == 0 { size } else { size.min(accepted) } as u16);
    let segment = tcp::syn_ack(header, cookie, LENGTH / 4);
    let segment = tcp::sealed(segment, sum.add_pseudo(LENGTH as u16, TCP).add(option));
    put(&mut packet, begin, segment)?;
    put(&mut packet, begin + tcp::LENGTH, [option])?;
    link::end(ctx, packet, begin + LENGTH)
}

/// Ends the answer to a SYN without options.
#[inline(always)]
fn short(ctx: &XdpContext, mut packet: Packet, begin: usize, header: [u32; 5], cookie: u32, sum: Sum) -> Option<()> {
    let segment = tcp::syn_ack(header, cookie, tcp::LENGTH / 4);
    put(&mut packet, begin, tcp::sealed(segment, sum.add_pseudo(tcp::LENGTH as u16, TCP)))?;
    link::end(ctx, packet, begin + tcp::LENGTH)
}
