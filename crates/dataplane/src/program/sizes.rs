//! How many buckets a new instance has, if the operator chooses no number: it follows the memory of the machine. The
//! number of cells does not. A running instance keeps both.

use ratelimit_common::maps::names::BUCKETS_DEFAULT;

use crate::sys::host;

/// The largest number. These buckets take 168 MB.
const BUCKETS_MOST: u32 = 1 << 20;
/// Bytes of memory for each bucket: above the smallest number, buckets take a 43rd of the memory at most. A machine that
/// is sold with 8 GB shows its systems a little less, and has the largest number.
const MEMORY_OF_BUCKET: u64 = 7_000;

/// Returns the number for this machine.
#[must_use]
pub fn buckets_of_machine() -> u32 {
    host::memory().map_or(BUCKETS_DEFAULT, buckets_of)
}

/// Returns the number for a machine with these bytes of memory: half as many for half of the memory.
fn buckets_of(memory: u64) -> u32 {
    let room = (memory / MEMORY_OF_BUCKET).clamp(BUCKETS_DEFAULT.into(), BUCKETS_MOST.into());
    1 << room.ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_buckets_follows_the_memory() {
        let of = |megabytes: u64| buckets_of(megabytes * 1_000_000);
        assert_eq!(of(0), BUCKETS_DEFAULT);
        // Machines of 1, 2, 4, 8 and 16 GB, as they show it.
        assert_eq!([1_000, 2_000, 4_000, 8_100, 16_600].map(of), [17, 18, 19, 20, 20].map(|bits| 1 << bits));
        // Each step, and just below it.
        assert_eq!([1_834, 1_836, 3_669, 3_671, 7_339, 7_341].map(of), [17, 18, 18, 19, 19, 20].map(|bits| 1 << bits));
        assert_eq!(buckets_of(u64::MAX), BUCKETS_MOST);
    }
}
