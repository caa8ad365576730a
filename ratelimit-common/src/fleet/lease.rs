//! A lease: what a host leaves one source of a limit that the fleet shares, until a time.
//!
//! The user side writes leases, and the program charges them beside the limits of the host. So a lease can only slow a
//! source. It ends by itself, and then the limits of the host apply alone.

use crate::{
    boundary,
    meters::gcra::{MAX_DEBT, Units},
};

/// One entry of the map of leases, one cache line.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lease {
    /// Hash of the source; 0 is a free place.
    pub source: u64,
    /// Time at which it ends, in nanoseconds of the program's clock.
    pub end: u64,
    /// Factor of costs, from [`WHOLE`] to [`MOST`].
    pub multiplier: u64,
    /// State of the packet limit, with multiplied costs. See [`crate::meters::state`].
    pub packets: u64,
    /// State of the limit of bytes, or of a second one of packets, with multiplied costs.
    pub second: u64,
    /// Sum of the costs of packets that the source was admitted since it has this place. They are not multiplied. If the
    /// policy has two limits, the higher cost of each packet counts.
    pub admitted: u64,
    /// Packets that limits have refused it since then.
    pub refused: u64,
    /// Bytes of these, if some limit counts bytes.
    pub refused_bytes: u64,
}
boundary!(Lease, size 64);

/// Binary digits of a multiplier's fraction.
const FRACTION_BITS: u32 = 16;
/// The multiplier that leaves a source the whole limit.
pub const WHOLE: u64 = 1 << FRACTION_BITS;
/// The largest multiplier. It leaves a source 1/65,536 of its limit.
pub const MOST: u64 = WHOLE << 16;

/// In place of the hash of a source, marks the lease whose multiplier tells the number of hosts among which a burst is
/// divided. See [`crate::meters::start`].
pub const EVERY_SOURCE: u64 = u64::MAX;

/// Number of leases: 2 MB at 64 bytes each.
pub const LEASES: u32 = 1 << 15;

/// Places that a source may have.
pub const WAYS: u32 = 4;

/// Returns the first of the [`WAYS`] places of the source with this hash. `leases` is a power of two.
#[inline(always)]
#[must_use]
pub const fn first_place(hash: u64, leases: u32) -> u32 {
    (hash >> 32) as u32 & leases.wrapping_sub(1) & !(WAYS - 1)
}

/// Returns a cost that is multiplied, even and at most [`MAX_DEBT`].
#[inline(always)]
#[must_use]
pub const fn multiplied(cost: Units, multiplier: u64) -> Units {
    let multiplier = if multiplier < MOST { multiplier } else { MOST };
    // In two halves, so that nothing overflows and nothing is lost.
    let high = (cost >> 32) * multiplier;
    if high >= MAX_DEBT >> FRACTION_BITS {
        return MAX_DEBT;
    }
    let product = (high << FRACTION_BITS) + ((cost as u32 as u64 * multiplier) >> FRACTION_BITS);
    if product < MAX_DEBT { product & !1 } else { MAX_DEBT }
}

/// Returns the number of hosts that a multiplier tells.
#[inline(always)]
#[must_use]
pub const fn hosts(multiplier: u64) -> u64 {
    multiplier >> FRACTION_BITS
}

/// Returns the multiplier for a share of the limit.
#[cfg(any(test, feature = "user"))]
#[must_use]
pub fn multiplier(share: f64) -> u64 {
    // Not a number becomes the smallest share.
    let least = WHOLE as f64 / MOST as f64;
    let share = if share >= least { share.min(1.0) } else { least };
    (WHOLE as f64 / share).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_multiplied_cost_is_exact(digits in 0..62u32, noise: u64, multiplier in 0..=2 * MOST) {
            let cost = (1 << digits) + noise % (1 << digits);
            let exact = (u128::from(cost) * u128::from(multiplier.min(MOST))) >> FRACTION_BITS;
            prop_assert_eq!(u128::from(multiplied(cost, multiplier)), exact.min(u128::from(MAX_DEBT)) & !1);
        }

        #[test]
        fn a_lease_leaves_at_most_its_share_and_never_more_than_the_limit(share: f64, cost in 1u64..1 << 50) {
            let factor = multiplier(share);
            prop_assert!((WHOLE..=MOST).contains(&factor));
            if (1.0 / 65_536.0..=1.0).contains(&share) {
                let left = cost as f64 / (cost as f64 * factor as f64 / WHOLE as f64);
                prop_assert!(left <= share * (1.0 + 1e-9));
                prop_assert!(left >= share * 0.98);
            }
        }
    }

    #[test]
    fn shares_that_make_no_sense_become_the_least_or_the_whole() {
        for share in [f64::NAN, f64::NEG_INFINITY, -1.0, 0.0, f64::MIN_POSITIVE] {
            assert_eq!(multiplier(share), MOST);
        }
        for share in [1.0, 2.0, f64::INFINITY] {
            assert_eq!(multiplier(share), WHOLE);
        }
    }

    #[test]
    fn the_places_of_a_source_lie_within_the_map() {
        for hash in [0, u64::MAX, 0x1234_5678_9abc_def0] {
            let first = first_place(hash, 1 << 15);
            assert_eq!(first % WAYS, 0);
            assert!(first + WAYS <= 1 << 15);
        }
    }
}
