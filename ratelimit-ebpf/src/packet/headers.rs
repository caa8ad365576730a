//! What the parser can read from a frame, in whichever buffers it lies.

use core::ops::Deref;

use network_types::ip::{Ipv4Hdr, Ipv6Hdr};

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
    fn is_measured(&self) -> bool;

    /// Returns whether the frame may continue behind the readable bytes.
    fn has_more(&self) -> bool;

    /// Returns a copy for one round of a loop.
    #[must_use]
    fn in_loop(&self) -> Self;
}
