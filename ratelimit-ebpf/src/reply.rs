//! The answer to a packet over its limit: the received frame becomes the answer and goes back where it came from, so that the sender
//! need not wait for its own timeout.
//!
//! What cannot have asked, or may be meant for many, is never answered (RFC 1122, section 3.2.2; RFC 4443, section 2.4), and what is not
//! quite plain neither: options, extension headers, later fragments. So no answer meets another one, and the program stays small.

mod budget;
mod checksum;
mod ipv4;
mod ipv6;
mod link;
mod tcp;

use aya_ebpf::programs::XdpContext;
use network_types::eth::EtherType;

use crate::{maps::this_cpu, packet::frame::Packet, parse::parser};

/// Makes the frame an answer to itself, for `XDP_TX`. Without one it is as good as dropped: parts of it may be overwritten.
///
/// `length` is that of the whole frame, in whatever buffers.
#[inline(never)]
#[must_use]
pub fn send_back(ctx: &XdpContext, length: u32) -> bool {
    let is_ready = answer(ctx, Packet::of_length(ctx, length)).is_some();
    if is_ready && let Some(own) = this_cpu::own() {
        own.replies_sent.increment();
    }
    is_ready
}

#[inline(always)]
fn answer(ctx: &XdpContext, packet: Packet) -> Option<()> {
    // What is cut off an answer's end lies in the first buffer.
    if packet.has_more() || !link::is_for_one(&packet)? {
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
