//! A cell's filter of the buckets of its sources. A source that it does not know has no bucket, or a bucket that was not
//! used for long. So a flood of new sources needs no look-up.
//!
//! Time is counted in *epochs*: an epoch ends when as many buckets were created as the map holds, rounded up to a power of
//! two. Until then, the map evicts few buckets that were used in it. A cell has one filter for even epochs and one for
//! odd ones.

/// Bits of a source in a filter: two, so that few other sources have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bits(u64);

/// The filter of one epoch: 7 bits of its number, [`LEASED`], and 56 bits of sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BucketFilter(pub u64);

const BITS: u32 = 56;
const EPOCH_SHIFT: u32 = BITS + 1;

/// Set if a source of the cell may have a [lease](crate::fleet::lease). The user side sets it in the filters of both
/// epochs. A filter that begins anew has lost it, so the user side sets it again with each renewal.
pub const LEASED: u64 = 1 << BITS;

/// First bit of a hash that chooses a bit of a filter. The lower ones select the cell.
const HASH_SHIFT: u32 = 32;

impl Bits {
    /// Returns the bits of the source with this hash.
    #[inline(always)]
    #[must_use]
    pub const fn of(hash: u64) -> Self {
        let first = ((hash >> HASH_SHIFT & 0xffff) * BITS as u64) >> 16;
        let second = ((hash >> (HASH_SHIFT + 16)) * BITS as u64) >> 16;
        Self(1 << first | 1 << second)
    }
}

impl BucketFilter {
    /// Returns whether a source with these bits may have used its bucket in this epoch.
    #[inline(always)]
    #[must_use]
    pub const fn may_have(self, bits: Bits, epoch: u64) -> bool {
        self.is_of(epoch) && self.0 & bits.0 == bits.0
    }

    /// Returns the filter of this epoch with these bits.
    #[inline(always)]
    #[must_use]
    pub const fn with(self, bits: Bits, epoch: u64) -> Self {
        if self.is_of(epoch) { Self(self.0 | bits.0) } else { Self(epoch << EPOCH_SHIFT | bits.0) }
    }

    /// A number that comes back after 128 epochs makes a source seem to have a bucket, which costs a look-up.
    #[inline(always)]
    const fn is_of(self, epoch: u64) -> bool {
        (self.0 ^ epoch << EPOCH_SHIFT) >> EPOCH_SHIFT == 0
    }
}

/// The first epoch in which the filters know every bucket that was used in the last two. A new instance begins in it. If
/// the filters of an instance are lost, it begins in epoch 0.
pub const FIRST_EPOCH: u64 = 2;

/// Buckets that a CPU creates before it counts them.
pub const STEP: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_filter_knows_the_sources_of_its_epoch_and_no_other_epoch(
            hashes in prop::collection::vec(any::<u64>(), 1..20), epoch in 0u64..1 << 50, other in 1u64..128, before: u64,
        ) {
            let full = hashes.iter().fold(BucketFilter(before), |filter, hash| filter.with(Bits::of(*hash), epoch));
            for hash in hashes {
                prop_assert!(full.may_have(Bits::of(hash), epoch));
                prop_assert!(!full.may_have(Bits::of(hash), epoch + other));
            }
        }

        #[test]
        fn a_filter_of_another_epoch_is_forgotten(one: u64, other: u64, epoch in 0u64..1 << 50) {
            let filter = BucketFilter::default().with(Bits::of(one), epoch).with(Bits::of(other), epoch + 1);
            prop_assert_eq!(filter, BucketFilter::default().with(Bits::of(other), epoch + 1));
        }
    }

    /// Another source has both bits of one bucket in one of 784 cases.
    #[test]
    fn few_sources_share_the_bits_of_another() {
        let hash = |number: u64| (number ^ number >> 7).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let same = (0..100_000)
            .filter(|number| {
                let filter = BucketFilter::default().with(Bits::of(hash(*number)), 7);
                filter.may_have(Bits::of(hash(number + 1_000_000)), 7)
            })
            .count();
        assert!((50..300).contains(&same), "{same}");
    }
}
