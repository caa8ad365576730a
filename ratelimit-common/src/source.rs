//! Who a packet is billed to.

use crate::boundary;

/// [`Source::family`] of IPv4.
pub const IPV4: u8 = 4;
/// [`Source::family`] of IPv6.
pub const IPV6: u8 = 6;

/// One bucket's owner: an IPv4 address, or an IPv6 prefix.
///
/// 24 bytes rather than the 16 that an address alone would need: the kernel hashes keys in rounds of twelve bytes and
/// compares them in words of eight, so 24 cost what 16 cost, and any IPv6 prefix length can be a source of its own.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Source {
    /// Class of the packet's service; 0 is any.
    pub class: u16,
    /// [`IPV4`] or [`IPV6`].
    pub family: u8,
    /// Significant bits of the address. Zero where the source is the key of a prefix map, which counts bits itself.
    pub prefix: u8,
    /// Zero.
    pub reserved: u32,
    /// The address in network order, zero beyond its prefix. IPv4 has the first four bytes.
    pub address: [u8; 16],
}
boundary!(Source, size 24);

/// Bits of [`Source`] in front of its address, which every key of a prefix map fixes.
pub const KEY_BITS: u32 = 64;

impl Source {
    /// One IPv4 address.
    #[inline(always)]
    #[must_use]
    pub const fn v4(a: [u8; 4]) -> Self {
        let address = [a[0], a[1], a[2], a[3], 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        Self { class: 0, family: IPV4, prefix: 32, reserved: 0, address }
    }

    /// The IPv6 prefix of `prefix` bits (at most 128) around `address`.
    #[inline(always)]
    #[must_use]
    pub const fn v6(address: [u8; 16], prefix: u8) -> Self {
        Self { class: 0, family: IPV6, prefix, reserved: 0, address: masked(address, prefix) }
    }

    /// Bits of this address that make a source: all of IPv4, `ipv6_prefix` of IPv6. All hosts of a link share the one
    /// link-local prefix, so there each address is a source.
    #[inline(always)]
    #[must_use]
    pub const fn bits(&self, ipv6_prefix: u8) -> u8 {
        // fe80::/10 (RFC 4291, section 2.4).
        let is_link_local = self.address[0] == 0xfe && self.address[1] & 0xc0 == 0x80;
        match (self.family, is_link_local) {
            (IPV4, _) => 32,
            (_, true) => 128,
            (_, false) => ipv6_prefix,
        }
    }

    /// The source as the key of a prefix map, and the number of bits that must match `prefix` bits of the address.
    #[inline(always)]
    #[must_use]
    pub const fn prefix_key(&self, prefix: u8) -> (u32, Self) {
        (KEY_BITS + prefix as u32, Self { prefix: 0, ..*self })
    }
}

/// `address` with everything beyond the first `prefix` bits (at most 128) cleared.
#[inline(always)]
#[must_use]
pub const fn masked(address: [u8; 16], prefix: u8) -> [u8; 16] {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = address;
    let high = u64::from_be_bytes([a, b, c, d, e, f, g, h]) & mask(prefix);
    let low = u64::from_be_bytes([i, j, k, l, m, n, o, p]) & mask(prefix.saturating_sub(64));
    let ([a, b, c, d, e, f, g, h], [i, j, k, l, m, n, o, p]) = (high.to_be_bytes(), low.to_be_bytes());
    [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]
}

/// The first `bits` bits of a word.
#[inline(always)]
const fn mask(bits: u8) -> u64 {
    match bits {
        0 => 0,
        1..64 => u64::MAX << (64 - bits),
        _ => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn masking_keeps_the_prefix_and_nothing_else(address: u128, prefix in 0u8..=128) {
            let keep = if prefix == 0 { 0 } else { u128::MAX << (128 - u32::from(prefix)) };
            prop_assert_eq!(masked(address.to_be_bytes(), prefix), (address & keep).to_be_bytes());
        }
    }
}
