//! How many buckets a new instance has, if the operator chooses no number: it follows the memory of the machine. The
//! number of cells does not. A running instance keeps its sizes.

use ratelimit_common::maps::names::{BUCKETS_DEFAULT, CELLS_DEFAULT};

use crate::sys::memory;

/// The largest number of buckets. They take 168 MB.
const BUCKETS_MOST: u32 = 1 << 20;
/// Bytes of memory for each bucket: above the smallest number, they take a 43rd of the memory at most. A machine that is
/// sold with 8 GB shows its systems a little less, and has the largest number.
const MEMORY_OF_BUCKET: u64 = 7_000;

/// Numbers of buckets and cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    pub buckets: u32,
    pub cells: u32,
}

impl Sizes {
    /// Returns the sizes for this machine.
    #[must_use]
    pub fn of_machine() -> Self {
        memory::most().map_or(Self { buckets: BUCKETS_DEFAULT, cells: CELLS_DEFAULT }, Self::of)
    }

    /// Returns the sizes for a machine with these bytes of memory: half of the buckets for half of the memory.
    #[must_use]
    pub fn of(memory: u64) -> Self {
        let room = (memory / MEMORY_OF_BUCKET).clamp(BUCKETS_DEFAULT.into(), BUCKETS_MOST.into());
        Self { buckets: 1 << room.ilog2(), cells: CELLS_DEFAULT }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_buckets_follows_the_memory() {
        let of = |megabytes: u64| Sizes::of(megabytes * 1_000_000).buckets;
        assert_eq!(of(0), BUCKETS_DEFAULT);
        // Machines of 1, 2, 4, 8 and 16 GB, as they show it.
        assert_eq!([1_000, 2_000, 4_000, 8_100, 16_600].map(of), [17, 18, 19, 20, 20].map(|bits| 1 << bits));
        // Each step, and just below it.
        assert_eq!([1_834, 1_836, 3_669, 3_671, 7_339, 7_341].map(of), [17, 18, 18, 19, 19, 20].map(|bits| 1 << bits));
        assert_eq!(Sizes::of(u64::MAX).buckets, BUCKETS_MOST);
    }
}
