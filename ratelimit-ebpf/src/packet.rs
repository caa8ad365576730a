//! The one place that touches packet memory.

use aya_ebpf::programs::XdpContext;
use network_types::ip::{Ipv4Hdr, Ipv6Hdr};

/// A header that can lie anywhere, and that any bytes make a valid value of.
///
/// # Safety
///
/// Only bytes and arrays of bytes.
pub unsafe trait Header {}

// SAFETY: a byte.
unsafe impl Header for u8 {}
// SAFETY: an array of bytes.
unsafe impl Header for [u8; 2] {}
// SAFETY: only bytes and arrays of bytes.
unsafe impl Header for Ipv4Hdr {}
// SAFETY: only bytes and arrays of bytes.
unsafe impl Header for Ipv6Hdr {}

/// The bytes of one packet.
pub struct Packet {
    start: usize,
    end: usize,
}

impl Packet {
    /// The packet that the program was called with.
    #[inline(always)]
    #[must_use]
    pub fn of(ctx: &XdpContext) -> Self {
        Self { start: ctx.data(), end: ctx.data_end() }
    }

    /// Bytes from the Ethernet header on.
    #[inline(always)]
    #[must_use]
    pub fn length(&self) -> u32 {
        (self.end - self.start) as u32
    }

    /// Bytes from `offset` on; the verifier refuses this sum in 32 bits, since it may be done on the pointers.
    #[inline(always)]
    #[must_use]
    pub fn length_from(&self, offset: usize) -> usize {
        self.end - (self.start + offset)
    }

    /// The header at `offset`, if the packet reaches that far.
    #[inline(always)]
    #[must_use]
    pub fn header<T: Header>(&self, offset: usize) -> Option<&T> {
        const { assert!(align_of::<T>() == 1) };
        let at = self.start + offset;
        if at + size_of::<T>() > self.end {
            return None;
        }
        // SAFETY: the bytes lie between the packet's start and end, which the verifier checks again, and any bytes are a `T`.
        Some(unsafe { &*(at as *const T) })
    }
}

#[cfg(test)]
impl From<&[u8]> for Packet {
    fn from(bytes: &[u8]) -> Self {
        let start = bytes.as_ptr() as usize;
        Self { start, end: start + bytes.len() }
    }
}
