//! The headers in front of IP, and the ends of the frame.

use aya_ebpf::{
    helpers::{bpf_xdp_adjust_head, bpf_xdp_adjust_tail},
    programs::XdpContext,
};
use network_types::eth::EthHdr;

use crate::{
    packet::frame::Packet,
    parse::parser::{MOST_TAGS, TAG_LENGTH},
};

/// Bytes that are moved: the Ethernet header and the most tags, in three words.
const MOVED: usize = 24;
const _: () = assert!(EthHdr::LEN + MOST_TAGS * TAG_LENGTH <= MOVED);

/// Bytes of the shortest frame on a wire, without its checksum (IEEE 802.3). Network cards pad shorter frames, most of
/// them with old memory. So a frame of this length keeps it.
const SHORTEST: usize = 60;

/// Bytes that the shortest reply lacks of that: a reset over IPv4 without tags.
const MOST_PADDING: usize = SHORTEST - (EthHdr::LEN + 40);

/// Returns whether the frame came from one host and is for one host.
#[inline(always)]
pub(super) fn is_for_one(packet: &Packet) -> Option<bool> {
    let [destination, source]: &[[u8; 6]; 2] = packet.header(0)?;
    Some((destination[0] | source[0]) & 1 == 0 && *source != [0; 6])
}

/// Swaps the Ethernet addresses.
#[inline(always)]
pub(super) fn turn(packet: &mut Packet) -> Option<()> {
    let bytes: &[[u8; 2]; 6] = packet.header(0)?;
    let [a, b, c, d, e, f] = bytes.map(u16::from_ne_bytes);
    packet.put(0, [d, e, f, a, b, c].map(u16::to_ne_bytes))
}

/// Makes room for `N` bytes behind the tags, at least [`MOVED`]. All offsets behind it grow by `N`.
#[inline(always)]
pub(super) fn insert<const N: usize>(ctx: &XdpContext) -> Option<Packet> {
    const { assert!(N >= MOVED) };
    // SAFETY: the context is the one that the kernel has given, and nothing points into the packet any more.
    if unsafe { bpf_xdp_adjust_head(ctx.ctx, -(N as i32)) } != 0 {
        return None;
    }
    let mut packet = Packet::of(ctx);
    for at in [0, 8, 16] {
        // As a number, since LLVM turns a move of bytes into a call of `memmove`.
        let word = u64::from_ne_bytes(*packet.header(N + at)?);
        // The new headers overwrite the bytes that were no tag.
        packet.put(at, word.to_ne_bytes())?;
    }
    Some(packet)
}

/// Cuts the frame off behind the `needed` bytes of the reply, or pads the shortest one.
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
