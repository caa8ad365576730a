//! The only place that accesses packet memory.

use core::ops::Deref;

use aya_ebpf::{helpers::bpf_xdp_get_buff_len, programs::XdpContext};

use crate::packet::headers::{Frame, Header};

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

    #[inline(always)]
    fn is_measured(&self) -> bool {
        true
    }

    #[inline(always)]
    fn has_more(&self) -> bool {
        false
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
