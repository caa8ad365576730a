//! IPv6 extension headers.
//!
//! The walk is a function of its own, so that packets without extension headers do not pay for its registers. It
//! returns one integer.
//!
//! The walk computes instead of branching by the kind of header, because a branch in a loop multiplies the paths of the
//! verifier.

use crate::packet::{context::Transport, frame::Frame};

/// Largest number of extension headers. A packet with more is dropped, since they could hide its service.
const MOST_HEADERS: usize = 8;

/// Hop-by-hop options, routing, fragment, authentication, destination options (RFC 8200, section 4; RFC 4302). One bit
/// each.
const KINDS: u64 = 1 << 0 | 1 << 43 | 1 << FRAGMENT | 1 << AUTHENTICATION | 1 << 60;

/// Bytes of the shortest one.
const LENGTH: usize = 8;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;

/// A bit above all kinds. With it in a mask, LLVM shifts the mask. Without it, LLVM compares with a single kind and
/// branches.
const DECOY: u64 = 1 << 63;

/// Bound of all offsets.
const MOST_OFFSET: usize = Transport::MOST_BEGIN;

// Results of `walk` other than the protocol (8 bits) and the offset of the payload (24 bits).
const LATER_FRAGMENT: u64 = 1 << 32;
const TRUNCATED: u64 = 1 << 33;
const TOO_MANY: u64 = 1 << 34;
const UNREAD: u64 = 1 << 35;

/// Result of a walk.
#[cfg_attr(test, derive(Debug, PartialEq))]
pub(crate) enum Walked {
    /// The walk reached the payload.
    Payload {
        /// Number of its protocol.
        protocol: u8,
        /// Offset of the payload.
        begin: usize,
    },
    /// The walk reached the header of a fragment that is not the first.
    LaterFragment,
    /// The walk reached the end of the packet.
    Truncated,
    /// The walk reached the ninth header.
    TooMany,
    /// The walk reached a header in a buffer that this frame cannot read.
    Unread,
}

impl Walked {
    /// Walks from the extension header of kind `first` at `begin`, in a packet that ends at `end`.
    #[inline(always)]
    pub(crate) fn of(frame: &impl Frame, begin: usize, end: usize, first: u8) -> Self {
        match walk(*frame, begin, end, first) {
            LATER_FRAGMENT => Self::LaterFragment,
            TRUNCATED => Self::Truncated,
            TOO_MANY => Self::TooMany,
            UNREAD => Self::Unread,
            payload => Self::Payload { protocol: payload as u8, begin: (payload >> 8) as usize & MOST_OFFSET },
        }
    }
}

/// Returns whether a protocol number is that of an extension header that the walk skips.
#[inline(always)]
pub(crate) fn is_extension(protocol: u8) -> bool {
    protocol < 64 && KINDS >> protocol & 1 != 0
}

#[inline(never)]
fn walk(frame: impl Frame, begin: usize, end: usize, first: u8) -> u64 {
    let (mut offset, mut kind) = (begin, first);
    for _ in 0..MOST_HEADERS {
        if !is_extension(kind) {
            break;
        }
        if offset + LENGTH > end {
            return TRUNCATED;
        }
        let frame = frame.in_loop();
        let Some(header) = frame.read::<[u8; LENGTH]>(offset) else { return UNREAD };
        let [next, length, high, low, ..] = *header;
        let is_fragment = (DECOY | 1 << FRAGMENT) >> kind & 1;
        let is_authentication = (DECOY | 1 << AUTHENTICATION) >> kind & 1;
        if is_fragment * (u64::from(high) << 8 | u64::from(low & 0xf8)) != 0 {
            return LATER_FRAGMENT;
        }
        // In units of 8 bytes without the first, or of 4 bytes without the first two; a fragment's header has no
        // length.
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
