//! Frames and the headers in them. This is the only place that accesses packet memory.
//!
//! A frame lies in one buffer, or in several (kernel 5.18). The program reads the first buffer directly. Some drivers
//! leave it empty, or put only some headers into it: the parser stops there, and parses the frame again from all buffers.

use core::{mem::MaybeUninit, ops::Deref};

use aya_ebpf::{
    bindings::xdp_md,
    helpers::{bpf_xdp_get_buff_len, bpf_xdp_load_bytes},
    programs::XdpContext,
};
use network_types::ip::{Ipv4Hdr, Ipv6Hdr};

use crate::bpf::settings;

/// A header that can lie at any address, and for which any bytes are valid.
///
/// # Safety
///
/// Only bytes and arrays of bytes.
pub unsafe trait Header: Copy + 'static {}

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

/// A frame from which headers are read.
pub trait Frame: Copy {
    /// Returns the header at `offset`, if the readable bytes reach that far.
    fn read<T: Header>(&self, offset: usize) -> Option<impl Deref<Target = T>>;

    /// Returns the bytes of the frame, or of its first buffer while it is not [measured](Self::is_measured).
    fn length(&self) -> u32;

    /// Returns whether [`Self::length`] is that of the whole frame.
    #[inline(always)]
    fn is_measured(&self) -> bool {
        true
    }

    /// Returns whether the frame may continue behind the readable bytes.
    #[inline(always)]
    fn has_more(&self) -> bool {
        false
    }

    /// Returns a copy for one round of a loop.
    #[must_use]
    fn in_loop(&self) -> Self;
}

/// The bytes of a packet in one buffer.
#[derive(Clone, Copy)]
pub struct Packet {
    start: usize,
    end: usize,
}

impl Packet {
    /// Returns the packet of a program that takes no frames of several buffers, or the first buffer of any other.
    #[inline(always)]
    #[must_use]
    pub fn of(ctx: &XdpContext) -> Self {
        Self { start: ctx.data(), end: ctx.data_end() }
    }

    /// Returns the bytes from the first header on.
    #[inline(always)]
    #[must_use]
    pub fn length(&self) -> u32 {
        (self.end - self.start) as u32
    }

    /// Returns the header at `offset`, if the bytes reach that far.
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

    /// Returns the header at an offset that the packet itself says. LLVM must not see the sum: it would turn the check of
    /// a byte into another one, from which the verifier learns nothing.
    #[inline(always)]
    #[must_use]
    pub fn header_behind<T: Header>(&self, offset: usize) -> Option<&T> {
        const { assert!(align_of::<T>() == 1) };
        let at = self.start + offset;
        // SAFETY: a reference is readable.
        let at = unsafe { core::ptr::read_volatile(&raw const at) };
        if at + size_of::<T>() > self.end {
            return None;
        }
        // SAFETY: as above.
        Some(unsafe { &*(at as *const T) })
    }

    /// Writes `value` at `offset`, if the bytes reach that far.
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

impl Frame for Packet {
    #[inline(always)]
    fn read<T: Header>(&self, offset: usize) -> Option<impl Deref<Target = T>> {
        self.header(offset)
    }

    #[inline(always)]
    fn length(&self) -> u32 {
        self.length()
    }

    /// LLVM would move a computation with the packet's end out of the loop, which the verifier does not allow.
    #[inline(always)]
    fn in_loop(&self) -> Self {
        // SAFETY: a reference is readable.
        Self { end: unsafe { core::ptr::read_volatile(&raw const self.end) }, ..*self }
    }
}

/// Returns the bytes of a frame in all its buffers (kernel 5.18). This is a helper call.
#[inline(always)]
#[must_use]
pub fn whole_length(ctx: &XdpContext) -> u32 {
    // SAFETY: the context is the one that the kernel has given.
    unsafe { bpf_xdp_get_buff_len(ctx.ctx) as u32 }
}

#[cfg(not(target_arch = "bpf"))]
impl From<&[u8]> for Packet {
    fn from(bytes: &[u8]) -> Self {
        let start = bytes.as_ptr() as usize;
        Self { start, end: start + bytes.len() }
    }
}

/// Bytes of a first buffer from which on its frame is measured at once. Shorter ones are usually the whole frame.
const MEASURED: u32 = 256;

/// A frame (kernel 5.18) whose first buffer is readable. All others may follow.
#[derive(Clone, Copy)]
pub struct FirstBuffer {
    packet: Packet,
    length: u32,
}

impl FirstBuffer {
    /// Returns the first buffer.
    ///
    /// The length of the whole frame needs a helper call, which short buffers skip while no limit counts bytes. The
    /// parser notices when such a frame lacks bytes.
    #[inline(always)]
    #[must_use]
    pub fn of(ctx: &XdpContext) -> Self {
        let packet = Packet::of(ctx);
        let is_measured = packet.length() >= MEASURED || settings::is_on(&settings::BYTES_ON);
        Self { packet, length: if is_measured { whole_length(ctx) } else { packet.length() } }
    }
}

impl Frame for FirstBuffer {
    #[inline(always)]
    fn read<T: Header>(&self, offset: usize) -> Option<impl Deref<Target = T>> {
        self.packet.header(offset)
    }

    #[inline(always)]
    fn length(&self) -> u32 {
        self.length
    }

    #[inline(always)]
    fn is_measured(&self) -> bool {
        self.length >= MEASURED || settings::is_on(&settings::BYTES_ON)
    }

    #[inline(always)]
    fn has_more(&self) -> bool {
        !self.is_measured() || self.length != self.packet.length()
    }

    #[inline(always)]
    fn in_loop(&self) -> Self {
        Self { packet: self.packet.in_loop(), ..*self }
    }
}

/// A frame of several buffers, from which headers are copied (kernel 5.18).
#[derive(Clone, Copy)]
pub struct Scattered {
    ctx: *mut xdp_md,
    length: u32,
}

/// A copied header. It is aligned, because the verifier refuses misaligned reads of the stack.
#[repr(C, align(8))]
struct Copied<T>(T);

impl<T> Deref for Copied<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl Scattered {
    /// Returns the frame.
    #[inline(always)]
    #[must_use]
    pub fn of(ctx: &XdpContext) -> Self {
        Self { ctx: ctx.ctx, length: whole_length(ctx) }
    }
}

impl Frame for Scattered {
    #[inline(always)]
    fn read<T: Header>(&self, offset: usize) -> Option<impl Deref<Target = T>> {
        let mut header = MaybeUninit::<Copied<T>>::uninit();
        let (to, size) = (header.as_mut_ptr().cast(), size_of::<T>() as u32);
        // SAFETY: the context is the one that the kernel has given, and `to` has room for `size` bytes.
        let outcome = unsafe { bpf_xdp_load_bytes(self.ctx, offset as u32, to, size) };
        // SAFETY: the helper has written all bytes, and any bytes are a `T`.
        (outcome == 0).then(|| unsafe { header.assume_init() })
    }

    #[inline(always)]
    fn length(&self) -> u32 {
        self.length
    }

    #[inline(always)]
    fn in_loop(&self) -> Self {
        *self
    }
}
