//! The checksum of the Internet protocols (RFC 1071): the ones' complement of a sum whose carries are added again. The
//! order of bytes does not matter.

use core::ptr;

use aya_ebpf::helpers::bpf_csum_diff;

use crate::packet::frame::Packet;

/// Headers as words of four bytes, as in their pictures in the RFCs, and as they lie in the packet. They are numbers,
/// because LLVM keeps arrays of bytes on the stack, which is small.
pub(crate) type Words<const N: usize> = [u32; N];

/// A word of these bytes.
#[inline(always)]
pub(crate) const fn word(bytes: [u8; 4]) -> u32 {
    u32::from_ne_bytes(bytes)
}

/// The words at `offset`, if the readable bytes reach that far.
#[inline(always)]
pub(crate) fn words<const N: usize>(packet: &Packet, offset: usize) -> Option<Words<N>> {
    let bytes: &[[u8; 4]; N] = packet.header(offset)?;
    Some(bytes.map(word))
}

/// Puts words at `offset`, if the readable bytes reach that far.
#[inline(always)]
pub(super) fn put<const N: usize>(packet: &mut Packet, offset: usize, words: Words<N>) -> Option<()> {
    packet.put(offset, words.map(u32::to_ne_bytes))
}

/// Sum so far. A checksum inside the covered bytes counts as zero.
#[derive(Clone, Copy, Default)]
pub(super) struct Sum(u64);

impl Sum {
    /// Adds a word.
    #[inline(always)]
    #[must_use]
    pub(super) fn add(self, word: u32) -> Self {
        Self(self.0 + u64::from(word))
    }

    /// Adds `N` bytes of the packet, a multiple of four. The kernel does it, because in a loop the verifier would lose
    /// sight of the packet's end.
    #[inline(always)]
    #[must_use]
    pub(super) fn add_bytes<const N: usize>(self, packet: &Packet, offset: usize) -> Option<Self> {
        const { assert!(N.is_multiple_of(4)) };
        let bytes: &[u8; N] = packet.header(offset)?;
        // SAFETY: the helper reads `N` bytes there, and nothing where it is told to subtract.
        let sum = unsafe { bpf_csum_diff(ptr::null_mut(), 0, bytes.as_ptr().cast_mut().cast(), N as u32, 0) };
        Some(self.add(sum as u32))
    }

    /// Adds the rest of the pseudo header: the length and protocol of the payload (RFC 9293, section 3.1; RFC 8200,
    /// section 8.1).
    #[inline(always)]
    #[must_use]
    pub(super) fn add_pseudo(self, length: u16, protocol: u8) -> Self {
        let [high, low] = length.to_be_bytes();
        self.add(word([0, protocol, high, low]))
    }

    /// Returns the checksum as its two bytes in the packet.
    #[inline(always)]
    #[must_use]
    pub(super) fn checksum(self) -> [u8; 2] {
        // Three times suffice for the largest packet of 2¹⁶ words.
        let fold = |sum: u64| (sum & 0xffff) + (sum >> 16);
        (!(fold(fold(fold(self.0))) as u16)).to_ne_bytes()
    }
}

/// Bytes of an ICMP error in front of its quote.
pub(super) const ERROR: usize = 8;

/// Returns the header of an ICMP error: type, code and checksum. `sum` is that of the other covered bytes (RFC 792; RFC
/// 4443, section 3.1).
#[inline(always)]
pub(super) fn error([kind, code]: [u8; 2], sum: Sum) -> Words<2> {
    let [first, second] = sum.add(word([kind, code, 0, 0])).checksum();
    [word([kind, code, first, second]), 0]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checksum(words: &[u32]) -> [u8; 2] {
        words.iter().fold(Sum::default(), |sum, word| sum.add(*word)).checksum()
    }

    /// The example of RFC 1071, section 3.
    #[test]
    fn the_example_of_the_rfc_has_its_checksum() {
        let words = [word([0x00, 0x01, 0xf2, 0x03]), word([0xf4, 0xf5, 0xf6, 0xf7])];
        assert_eq!(checksum(&words), (!0xddf2_u16).to_be_bytes());
    }

    #[test]
    fn every_carry_comes_around() {
        assert_eq!(checksum(&[]), [0xff; 2]);
        assert_eq!(checksum(&[u32::MAX; 1 << 16]), [0; 2]);
        // A sum of 0xffff + 1 is 1 once around.
        assert_eq!(checksum(&[u32::MAX, word([0, 0, 0, 1])]), (!1_u16).to_be_bytes());
    }
}
