//! Frames whose headers do not lie in the first buffer.
//!
//! Some drivers leave the first buffer of a frame empty, or put only some headers into it. The parser of the usual
//! frames reads packet memory directly and stops there. Then the frame is parsed again from here.

use core::{mem::MaybeUninit, ops::Deref};

use aya_ebpf::{bindings::xdp_md, helpers::bpf_xdp_load_bytes, programs::XdpContext};

use crate::packet::{
    frame::whole_length,
    headers::{Frame, Header},
};

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
    fn is_measured(&self) -> bool {
        true
    }

    #[inline(always)]
    fn has_more(&self) -> bool {
        false
    }

    #[inline(always)]
    fn in_loop(&self) -> Self {
        *self
    }
}
