//! Sources: the senders that packets are billed to, and the keys of their rules and buckets.

use crate::{
    boundary,
    identity::{
        class::{ANY, Class, Classes, key},
        parent::{IN_INTERFACE, IN_PREFIX, Parent},
    },
};

/// [`Source::family`] of IPv4.
pub const IPV4: u8 = 4;
/// [`Source::family`] of IPv6.
pub const IPV6: u8 = 6;

/// One bucket's owner: an IPv4 address, an IPv6 prefix, or a wider limit that stands above them.
///
/// 24 bytes rather than the 16 that an address alone would need: the kernel hashes keys in rounds of twelve bytes and
/// compares them in words of eight, so 24 cost what 16 cost, and any IPv6 prefix length can be a source of its own.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Source {
    /// [`Class`] of the packet's service in the low byte, and the [mark](crate::identity::class::key) of its other
    /// classes.
    pub class: u16,
    /// [`IPV4`] or [`IPV6`]; 0 for a parent of both.
    pub family: u8,
    /// Significant bits of the address.
    pub prefix: u8,
    /// 0 for a source; for a parent, the number of its policy plus 1; see also [`Self::allowance`] and
    /// [`Self::offences`].
    pub parent: u32,
    /// The address in network order, zero beyond its prefix. IPv4 has the first four bytes.
    address: [u64; 2],
}
boundary!(Source, size 24);

/// Key of a rule for a prefix, behind the number of bits that must match.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefixKey {
    class: u16,
    family: u8,
    reserved: u8,
    address: [u32; 4],
    /// The kernel side asks for a size that is a multiple of eight.
    padding: u32,
}
boundary!(PrefixKey, size 24);

/// [`Source::parent`] of an [allowance](Source::allowance), without its policy.
const ALLOWANCE: u32 = 1 << 16;
/// [`Source::parent`] of [offences](Source::offences).
const OFFENCES: u32 = 1 << 17;

/// Bits of [`PrefixKey`] in front of its address, which every rule fixes.
const KEY_BITS: u32 = 32;

impl Source {
    /// One IPv4 address.
    #[inline(always)]
    #[must_use]
    pub const fn v4([a, b, c, d]: [u8; 4]) -> Self {
        let address = [u64::from_ne_bytes([a, b, c, d, 0, 0, 0, 0]), 0];
        Self { class: ANY as u16, family: IPV4, prefix: 32, parent: 0, address }
    }

    /// The IPv6 prefix of `prefix` bits (at most 128) around `address`.
    #[inline(always)]
    #[must_use]
    pub const fn v6(address: [u8; 16], prefix: u8) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = address;
        let words = [u64::from_ne_bytes([a, b, c, d, e, f, g, h]), u64::from_ne_bytes([i, j, k, l, m, n, o, p])];
        Self { class: ANY as u16, family: IPV6, prefix, parent: 0, address: masked(words, prefix) }
    }

    /// Returns the address in network order. IPv4 has the first four bytes.
    #[must_use]
    pub const fn address(&self) -> [u8; 16] {
        let [[a, b, c, d, e, f, g, h], [i, j, k, l, m, n, o, p]] =
            [self.address[0].to_ne_bytes(), self.address[1].to_ne_bytes()];
        [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]
    }

    /// Returns the first `prefix` bits of this source as a source.
    #[inline(always)]
    #[must_use]
    pub const fn shortened(&self, prefix: u8) -> Self {
        Self { prefix, address: masked(self.address, prefix), ..*self }
    }

    /// Returns the first 32 bits of the address, as they lie in memory.
    #[inline(always)]
    #[must_use]
    pub const fn first_word(&self) -> u32 {
        if cfg!(target_endian = "little") { self.address[0] as u32 } else { (self.address[0] >> 32) as u32 }
    }

    /// Returns a keyed hash. Its lower bits select the cell, and the rest tells sources within the cell apart. Without
    /// the seed, no sender can aim at a cell: each multiplication is by a secret odd number, so no difference between
    /// addresses makes a known difference in the hash. The seed is drawn with the instance, and stays when the program
    /// is replaced.
    #[inline(always)]
    #[must_use]
    pub const fn hash(&self, seed: &[u64; 4]) -> u64 {
        let who = (self.class as u64) << 16 | (self.family as u64) << 8 | self.prefix as u64;
        // Folded first, since a product's low bits depend on nothing above them: in the first half of an IPv6 address
        // neighbours differ there.
        let first = fold(fold(self.address[0] ^ seed[0]).wrapping_mul(seed[1] | 1));
        let both = first.wrapping_add(self.address[1] ^ who << 32 ^ seed[2]);
        // By another distance than in `fold`, or the difference of two first halves would cancel out.
        fold((both ^ both >> 29).wrapping_mul(seed[3] | 1))
    }

    /// Returns the source as words, as they lie in memory.
    #[inline(always)]
    #[must_use]
    pub const fn words(self) -> [u64; 3] {
        // SAFETY: as many bytes, none of them padding, and any bytes are words.
        unsafe { core::mem::transmute(self) }
    }

    /// Returns this source for packets of these classes.
    #[inline(always)]
    #[must_use]
    pub const fn of_classes(self, classes: Classes) -> Self {
        Self { class: key(classes), ..self }
    }

    /// Returns this source for packets that are billed to a class.
    #[inline(always)]
    #[must_use]
    pub const fn of_class(self, class: Class) -> Self {
        Self { class: class as u16, ..self }
    }

    /// Returns the key of a parent's bucket, for a packet of this source on the interface with this index.
    #[inline(always)]
    #[must_use]
    pub const fn parent(&self, parent: Parent, interface: u32) -> Self {
        let of_all =
            Self { class: self.class, family: 0, prefix: 0, parent: parent.policy as u32 + 1, address: [0; 2] };
        match parent.scope {
            IN_PREFIX => Self {
                family: self.family,
                prefix: parent.prefix,
                address: masked(self.address, parent.prefix),
                ..of_all
            },
            IN_INTERFACE => Self { prefix: 32, address: [interface as u64, 0], ..of_all },
            _ => of_all,
        }
    }

    /// Returns the key of the bucket for the soft share of a source under this policy.
    #[inline(always)]
    #[must_use]
    pub const fn allowance(&self, policy: u32) -> Self {
        Self { parent: ALLOWANCE | policy, ..*self }
    }

    /// Returns the key of a source's [ban history](crate::limits::ban_history).
    #[inline(always)]
    #[must_use]
    pub const fn offences(&self) -> Self {
        Self { parent: OFFENCES, ..*self }
    }

    /// Returns the bits of this address that make a source: all of IPv4, `ipv6_prefix` of IPv6. All hosts of a link
    /// share the link-local prefix, so each link-local address is a source.
    #[inline(always)]
    #[must_use]
    pub const fn bits(&self, ipv6_prefix: u8) -> u8 {
        // fe80::/10 (RFC 4291, section 2.4).
        let is_link_local = self.address[0] & (0xffc0_u64 << 48).to_be() == (0xfe80_u64 << 48).to_be();
        match (self.family, is_link_local) {
            (IPV4, _) => 32,
            (_, true) => 128,
            (_, false) => ipv6_prefix,
        }
    }

    /// Returns this source as the key of a rule for a prefix, and the number of bits that must match `prefix` bits of
    /// the address.
    #[inline(always)]
    #[must_use]
    pub const fn prefix_key(&self, prefix: u8) -> (u32, PrefixKey) {
        // SAFETY: both are the same sixteen bytes.
        let address = unsafe { core::mem::transmute::<[u64; 2], [u32; 4]>(self.address) };
        let key = PrefixKey { class: self.class, family: self.family, reserved: 0, address, padding: 0 };
        (KEY_BITS + prefix as u32, key)
    }
}

impl PrefixKey {
    /// Returns the prefix as a source, given the number of bits that must match.
    #[must_use]
    pub const fn source(&self, bits: u32) -> Source {
        // SAFETY: both are the same sixteen bytes.
        let address = unsafe { core::mem::transmute::<[u32; 4], [u64; 2]>(self.address) };
        let prefix = bits.saturating_sub(KEY_BITS) as u8;
        Source { class: self.class, family: self.family, prefix, parent: 0, address }
    }
}

/// Lets the upper half of a word count in the lower one.
#[inline(always)]
const fn fold(word: u64) -> u64 {
    word ^ word >> 32
}

/// An address in network order with everything beyond the first `prefix` bits (at most 128) cleared.
#[inline(always)]
const fn masked([high, low]: [u64; 2], prefix: u8) -> [u64; 2] {
    [high & mask(prefix).to_be(), low & mask(prefix.saturating_sub(64)).to_be()]
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
            let source = Source::v6(address.to_be_bytes(), prefix);
            prop_assert_eq!(source.address(), (address & keep).to_be_bytes());
            prop_assert_eq!(Source::v6(address.to_be_bytes(), 128).shortened(prefix), source);
            let (bits, key) = source.prefix_key(prefix);
            prop_assert_eq!(key.source(bits), source);
        }
    }

    /// Neighbours of any kind lie in different cells, and have hashes of which half the bits differ.
    #[test]
    fn hashes_spread_neighbours() {
        let seed = [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344, 0xa409_3822_299f_31d0, 0x082e_fa98_ec4e_6c89];
        let far = u128::from_be_bytes([0x20, 1, 0xd, 0xb8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1]);
        for bit in 0..128 {
            let pairs = [
                (Source::v6(far.to_be_bytes(), 128), Source::v6((far ^ 1 << bit).to_be_bytes(), 128)),
                (Source::v4([192, 0, 2, 1]), Source::v4((0xc000_0201_u32 ^ 1 << (bit % 32)).to_be_bytes())),
                (Source::v4([192, 0, 2, 1]), Source::v4([192, 0, 2, 1]).of_class(bit as u8 + 1)),
            ];
            for (one, other) in pairs {
                let [one, other] = [one, other].map(|source| source.hash(&seed));
                let different = one ^ other;
                assert_ne!(different & 0x3_ffff, 0, "bit {bit}: the same cell");
                assert!((8..=56).contains(&different.count_ones()), "bit {bit}: {different:x}");
            }
        }
    }

    proptest! {
        /// Each step of the hash can be undone, so no two IPv4 sources of a class have the same.
        #[test]
        fn the_hash_of_an_ipv4_source_tells_its_address(address: [u8; 4], class: u8, seed: [u64; 4]) {
            let source = Source::v4(address).of_class(class);
            let inverse = |odd: u64| (0..6).fold(odd, |found, _| found.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(found))));
            let before = fold(source.hash(&seed)).wrapping_mul(inverse(seed[3] | 1));
            let both = before ^ before >> 29 ^ before >> 58;
            let who = u64::from(class) << 16 | u64::from(source.family) << 8 | u64::from(source.prefix);
            let first = both.wrapping_sub(source.address[1] ^ who << 32 ^ seed[2]);
            prop_assert_eq!(fold(fold(first).wrapping_mul(inverse(seed[1] | 1))) ^ seed[0], source.address[0]);
        }
    }

    #[test]
    fn link_local_addresses_are_whole_sources() {
        for (first, second, is_link_local) in
            [(0xfe, 0x80, true), (0xfe, 0xbf, true), (0xfe, 0xc0, false), (0xfe, 0x7f, false), (0xff, 0x80, false)]
        {
            let mut address = [7; 16];
            (address[0], address[1]) = (first, second);
            assert_eq!(Source::v6(address, 128).bits(64), if is_link_local { 128 } else { 64 });
        }
        assert_eq!(Source::v4([0xfe, 0x80, 0, 1]).bits(64), 32);
    }
}
