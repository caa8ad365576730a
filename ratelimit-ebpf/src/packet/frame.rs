//! The only place that accesses packet memory.

use aya_ebpf::{helpers::bpf_xdp_get_buff_len, programs::XdpContext};
use network_types::ip::{Ipv4Hdr, Ipv6Hdr};

/// A header that can lie at any address, and for which any bytes are valid.
///
/// # Safety
///
/// Only bytes and arrays of bytes.
pub unsafe trait Header {}

// SAFETY: a byte.
unsafe impl Header for u8 {}
// SAFETY: an array of bytes.
unsafe impl<const N: usize> Header for [u8; N] {}
// SAFETY: as above.
unsafe impl<const N: usize, const M: usize> Header for [[u8; N]; M] {}
// SAFETY: only bytes and arrays of bytes.
unsafe impl Header for Ipv4Hdr {}
// SAFETY: only bytes and arrays of bytes.
unsafe impl Header for Ipv6Hdr {}

/// Bytes that every driver is assumed to put into the first buffer of a frame with several buffers.
const SHORTEST_FIRST_BUFFER: usize = 256;

/// The bytes of one packet: all of them, or those in the first of several buffers.
#[derive(Clone, Copy)]
pub struct Packet {
    start: usize,
    end: usize,
    length: u32,
    has_more: bool,
}

impl Packet {
    /// Returns the packet of a program that takes no frames of several buffers.
    #[inline(always)]
    #[must_use]
    pub fn linear(ctx: &XdpContext) -> Self {
        let (start, end) = (ctx.data(), ctx.data_end());
        Self { start, end, length: (end - start) as u32, has_more: false }
    }

    /// Returns the packet of any other program (kernel 5.18). The length of the whole frame needs a helper call, which
    /// short frames skip.
    #[inline(always)]
    #[must_use]
    pub fn of(ctx: &XdpContext) -> Self {
        let linear = Self::linear(ctx);
        if (linear.length as usize) < SHORTEST_FIRST_BUFFER {
            return linear;
        }
        // SAFETY: the context is the one that the kernel has given.
        let length = unsafe { bpf_xdp_get_buff_len(ctx.ctx) } as u32;
        Self { length, has_more: length != linear.length, ..linear }
    }

    /// Returns a packet of a known length, without a helper call.
    #[inline(always)]
    #[must_use]
    pub fn of_length(ctx: &XdpContext, length: u32) -> Self {
        let linear = Self::linear(ctx);
        Self { length, has_more: length != linear.length, ..linear }
    }

    /// Returns the bytes from the Ethernet header on, in all buffers.
    #[inline(always)]
    #[must_use]
    pub fn length(&self) -> u32 {
        self.length
    }

    /// Returns whether the frame continues behind the readable bytes.
    #[inline(always)]
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.has_more
    }

    /// Returns a copy for one round of a loop. Otherwise LLVM moves a computation with the packet's end out of the
    /// loop, which the verifier does not allow.
    #[inline(always)]
    #[must_use]
    pub fn in_loop(&self) -> Self {
        // SAFETY: a reference is readable.
        Self { end: unsafe { core::ptr::read_volatile(&raw const self.end) }, ..*self }
    }

    /// Returns the header at `offset`, if the readable bytes reach that far.
    #[inline(always)]
    #[must_use]
    pub fn header<T: Header>(&self, offset: usize) -> Option<&T> {
        const { assert!(align_of::<T>() == 1) };
        let at = self.start + offset;
        if at + size_of::<T>() > self.end {
            return None;
        }
        // SAFETY: the bytes lie between the packet's start and end, which the verifier checks again, and any bytes are
        // a `T`.
        Some(unsafe { &*(at as *const T) })
    }

    /// Writes `value` at `offset`, if the readable bytes reach that far.
    #[inline(always)]
    #[must_use]
    pub fn put<T: Header>(&mut self, offset: usize, value: T) -> Option<()> {
        const { assert!(align_of::<T>() == 1) };
        let at = self.start + offset;
        if at + size_of::<T>() > self.end {
            return None;
        }
        // SAFETY: as above, and no reference to what is overwritten outlives the exclusive one to the packet.
        unsafe { (at as *mut T).write(value) };
        Some(())
    }
}

#[cfg(not(target_arch = "bpf"))]
impl From<&[u8]> for Packet {
    fn from(bytes: &[u8]) -> Self {
        let start = bytes.as_ptr() as usize;
        Self { start, end: start + bytes.len(), length: bytes.len() as u32, has_more: false }
    }
}
