//! IPv6 extension headers.
//!
//! The walk is a function of its own, so that packets without them do not pay for its registers, and says what it has found in one
//! integer. It computes instead of branching by the kind of header: each branch in a loop multiplies the paths that the verifier
//! has to walk.

use crate::packet::frame::Packet;

/// Extension headers that are looked through. A packet with more is dropped: passing it would hide its service.
const MOST_HEADERS: usize = 8;

/// Hop-by-hop options, routing, fragment, authentication, destination options (RFC 8200, section 4; RFC 4302). One bit each.
const KINDS: u64 = 1 << 0 | 1 << 43 | 1 << FRAGMENT | 1 << AUTHENTICATION | 1 << 60;

/// Bytes of the shortest one.
const LENGTH: usize = 8;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;

/// Kinds above all that there are. With one of them in it a mask is looked up by a shift, where LLVM would compare with a
/// single kind, and so branch.
const DECOY: u64 = 1 << 63;

/// More than any offset is here: eight headers have at most 2,048 bytes each. The verifier wants to see a bound.
const MOST_OFFSET: usize = 0x7fff;

/// What [`walk`] returns beside the protocol (8 bits) and the offset of the payload (24 bits).
const LATER_FRAGMENT: u64 = 1 << 32;
const TRUNCATED: u64 = 1 << 33;
const TOO_MANY: u64 = 1 << 34;

/// Where a walk has come to.
#[cfg_attr(test, derive(Debug, PartialEq))]
pub(crate) enum Walked {
    /// To the payload.
    Payload {
        /// Number of its protocol.
        protocol: u8,
        /// Where it begins.
        begin: usize,
    },
    /// To the header of a fragment that is not the first.
    LaterFragment,
    /// To the end of the packet.
    Truncated,
    /// To the ninth header, or to one beyond the frame's first buffer.
    TooMany,
}

impl Walked {
    /// Walks from the extension header of kind `first` at `begin`, in a packet that ends at `end`.
    #[inline(always)]
    pub(crate) fn of(packet: &Packet, begin: usize, end: usize, first: u8) -> Self {
        match walk(*packet, begin, end, first) {
            LATER_FRAGMENT => Self::LaterFragment,
            TRUNCATED => Self::Truncated,
            TOO_MANY => Self::TooMany,
            payload => Self::Payload { protocol: payload as u8, begin: (payload >> 8) as usize & MOST_OFFSET },
        }
    }
}

/// Whether a protocol number means one of the extension headers that are looked through.
#[inline(always)]
pub(crate) fn is_extension(protocol: u8) -> bool {
    protocol < 64 && KINDS >> protocol & 1 != 0
}

#[inline(never)]
fn walk(packet: Packet, begin: usize, end: usize, first: u8) -> u64 {
    let (mut offset, mut kind) = (begin, first);
    for _ in 0..MOST_HEADERS {
        if !is_extension(kind) {
            break;
        }
        if offset + LENGTH > end {
            return TRUNCATED;
        }
        let packet = packet.in_loop();
        let Some(&[next, length, high, low, ..]) = packet.header::<[u8; LENGTH]>(offset) else { return TOO_MANY };
        let is_fragment = (DECOY | 1 << FRAGMENT) >> kind & 1;
        let is_authentication = (DECOY | 1 << AUTHENTICATION) >> kind & 1;
        if is_fragment * (u64::from(high) << 8 | u64::from(low & 0xf8)) != 0 {
            return LATER_FRAGMENT;
        }
        // In units of 8 bytes without the first, or of 4 bytes without the first two; a fragment's header has no length.
        let units = u64::from(length) & is_fragment.wrapping_sub(1);
        let length = (units + 1 + is_authentication) << (3 - is_authentication);
        offset = (offset + length as usize) & MOST_OFFSET;
        kind = next;
    }
    if is_extension(kind) {
        TOO_MANY
    } else if offset > end {
        TRUNCATED
    } else {
        (offset as u64) << 8 | u64::from(kind)
    }
}

#[cfg(test)]
mod tests;
