//! The one place that touches packet memory.

use aya_ebpf::programs::XdpContext;
use network_types::{
    eth::EthHdr,
    ip::{Ipv4Hdr, Ipv6Hdr},
};

/// A header that any bytes make a valid value of.
///
/// # Safety
///
/// `repr(C)`, of integers and arrays of integers only.
pub unsafe trait Header: Copy {}

// SAFETY: `repr(C)`, of integers and arrays of integers only.
unsafe impl Header for EthHdr {}
// SAFETY: as above.
unsafe impl Header for Ipv4Hdr {}
// SAFETY: as above.
unsafe impl Header for Ipv6Hdr {}
// SAFETY: as above.
unsafe impl Header for VlanTag {}

/// What follows the type of an 802.1Q or 802.1ad frame.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct VlanTag {
    /// Priority and VLAN, network order.
    pub control: u16,
    /// Type of what follows, network order.
    pub ether_type: u16,
}

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

    /// The header at `offset`, if the packet reaches that far.
    #[inline(always)]
    #[must_use]
    pub fn header<T: Header>(&self, offset: usize) -> Option<T> {
        let at = self.start + offset;
        if at + size_of::<T>() > self.end {
            return None;
        }
        // SAFETY: the bytes lie between the packet's start and end, which the verifier checks again, and any bytes are a `T`.
        Some(unsafe { core::ptr::read_unaligned(at as *const T) })
    }
}

#[cfg(test)]
impl From<&[u8]> for Packet {
    fn from(bytes: &[u8]) -> Self {
        let start = bytes.as_ptr() as usize;
        Self { start, end: start + bytes.len() }
    }
}
