//! Turns a received frame into a reply and sends it back, so that the sender does not wait for a timeout.
//!
//! Replies, errors, and packets to many hosts get no reply (RFC 1122, section 3.2.2; RFC 4443, section 2.4). Packets
//! with options, extension headers or later fragments get none either. So no reply causes another one, and the program
//! stays small.

use aya_ebpf::programs::XdpContext;
use network_types::eth::EtherType;

use crate::{
    maps::this_cpu,
    packet::frame::Packet,
    parse::parser,
    reply::{ipv4, ipv6, link},
};

/// Turns the frame into a reply for `XDP_TX`. If it returns `false`, the frame must be dropped: parts of it may be
/// overwritten.
///
/// `length` is that of the whole frame, in all buffers.
#[inline(never)]
#[must_use]
pub fn send_back(ctx: &XdpContext, length: u32) -> bool {
    let is_ready = answer(ctx, Packet::of(ctx), length).is_some();
    if is_ready {
        this_cpu::count(|cpu| &cpu.replies_sent);
    }
    is_ready
}

#[inline(always)]
fn answer(ctx: &XdpContext, packet: Packet, length: u32) -> Option<()> {
    // The end that is cut off must lie in the first buffer.
    if packet.length() != length || !link::is_for_one(&packet)? {
        return None;
    }
    let (ether_type, offset) = parser::network(&packet)?;
    if ether_type == EtherType::Ipv4 as u16 {
        ipv4::answer(ctx, offset).then_some(())
    } else if ether_type == EtherType::Ipv6 as u16 {
        ipv6::answer(ctx, offset).then_some(())
    } else {
        None
    }
}
