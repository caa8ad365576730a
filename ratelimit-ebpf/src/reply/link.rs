//! What lies in front of IP, and the frame's ends.

use aya_ebpf::{
    helpers::{bpf_xdp_adjust_head, bpf_xdp_adjust_tail},
    programs::XdpContext,
};
use network_types::eth::EthHdr;

use crate::{
    packet::frame::Packet,
    parse::parser::{MOST_TAGS, TAG_LENGTH},
};

/// Three words of the processor: the Ethernet header and the most tags.
const MOVED: usize = 24;
const _: () = assert!(EthHdr::LEN + MOST_TAGS * TAG_LENGTH <= MOVED);

/// The shortest frame on a wire, without its checksum (IEEE 802.3). Network cards fill up what is shorter, most with what lies in
/// memory there; so a frame that was as long stays so.
const SHORTEST: usize = 60;

/// What the shortest answer lacks of that: a reset over IPv4 without tags.
const MOST_PADDING: usize = SHORTEST - (EthHdr::LEN + 40);

/// Whether the frame came from one host and was for one.
#[inline(always)]
pub(super) fn is_for_one(packet: &Packet) -> Option<bool> {
    let [destination, source]: &[[u8; 6]; 2] = packet.header(0)?;
    Some((destination[0] | source[0]) & 1 == 0 && *source != [0; 6])
}

/// Sends the frame back to where it came from.
#[inline(always)]
pub(super) fn turn(packet: &mut Packet) -> Option<()> {
    let bytes: &[[u8; 2]; 6] = packet.header(0)?;
    let [a, b, c, d, e, f] = bytes.map(u16::from_ne_bytes);
    packet.put(0, [d, e, f, a, b, c].map(u16::to_ne_bytes))
}

/// Makes room for `N` bytes between the tags and what they lead to, which are more than [`MOVED`]. All offsets into what follows are `N` more
/// from then on.
#[inline(always)]
pub(super) fn insert<const N: usize>(ctx: &XdpContext) -> Option<Packet> {
    const { assert!(N >= MOVED) };
    // SAFETY: the context is the one that the kernel has given, and nothing points into the packet any more.
    if unsafe { bpf_xdp_adjust_head(ctx.ctx, -(N as i32)) } != 0 {
        return None;
    }
    let mut packet = Packet::linear(ctx);
    for at in [0, 8, 16] {
        // As a number, which LLVM does not make a call to `memmove` of.
        let word = u64::from_ne_bytes(*packet.header(N + at)?);
        // What was no tag is overwritten by the headers that there is room for.
        packet.put(at, word.to_ne_bytes())?;
    }
    Some(packet)
}

/// Cuts the frame off behind the `needed` bytes of the answer, or fills up the shortest one.
#[inline(always)]
pub(super) fn end(ctx: &XdpContext, mut packet: Packet, needed: usize) -> Option<()> {
    for at in 0..MOST_PADDING {
        if packet.put(needed + at, 0u8).is_none() {
            break;
        }
    }
    let length = packet.length() as usize;
    let surplus = length.checked_sub(needed.max(length.min(SHORTEST)))?;
    // SAFETY: as above.
    let is_done = surplus == 0 || unsafe { bpf_xdp_adjust_tail(ctx.ctx, -(surplus as i32)) } == 0;
    is_done.then_some(())
}
