//! Packets that a cached refusal has dropped, and their bytes, in one word. One addition counts both.

/// A count in one word: 24 bits of packets above 40 of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dropped(pub u64);

const BYTES_BITS: u32 = 40;
const FULL: u64 = 1 << 63;

impl Dropped {
    /// Returns the addend for one packet of `length` bytes.
    #[inline(always)]
    #[must_use]
    pub const fn one(length: u32) -> u64 {
        1 << BYTES_BITS | length as u64
    }

    /// Returns the packets.
    #[inline(always)]
    #[must_use]
    pub const fn packets(self) -> u64 {
        self.0 >> BYTES_BITS
    }

    /// Returns the bytes of these packets.
    #[inline(always)]
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.0 & ((1 << BYTES_BITS) - 1)
    }

    /// Returns whether the count must be moved before more is added: at 8 million packets. The word has room for twice
    /// as many of 64 KiB, for CPUs that add meanwhile.
    #[inline(always)]
    #[must_use]
    pub const fn is_full(self) -> bool {
        self.0 & FULL != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn one_word_counts_packets_and_bytes(lengths in prop::collection::vec(0u32..=1 << 16, 0..100)) {
            let count = Dropped(lengths.iter().map(|length| Dropped::one(*length)).sum());
            prop_assert_eq!(count.packets(), lengths.len() as u64);
            prop_assert_eq!(count.bytes(), lengths.iter().map(|length| u64::from(*length)).sum::<u64>());
            prop_assert!(!count.is_full());
        }

        #[test]
        fn it_is_full_long_before_it_overflows(length in 0u32..=1 << 16, packets in 0u64..1 << 24) {
            let count = Dropped(packets * Dropped::one(length));
            prop_assert_eq!((count.packets(), count.bytes()), (packets, packets * u64::from(length)));
            prop_assert_eq!(count.is_full(), packets >= 1 << 23);
        }
    }
}
