//! The capacity of an interface, which decides whether packets over an elastic limit have room.

use crate::{boundary, meters::gcra::Units};

/// Places for interfaces. Two interfaces with the same place cannot both have a capacity.
pub const PLACES: u32 = 256;

/// One entry of the map of capacities: a bucket of all packets that pass on one interface. CPUs charge it in batches,
/// so they do not wait for each other, and only one packet of a batch writes here.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capacity {
    /// State. See [`crate::meters::gcra`].
    pub state: u64,
    /// Index of the interface; 0 where there is none.
    pub interface: u32,
    /// Packets in a batch.
    pub batch: u32,
    /// Cost of a batch.
    pub cost: Units,
    /// Debt up to which there is room.
    pub burst: Units,
    /// Packets per second, as the operator gave it.
    pub per_second: u64,
    /// Fills a cache line.
    pub reserved: [u64; 3],
}
boundary!(Capacity, size 64);

/// Returns the place of an interface.
#[inline(always)]
#[must_use]
pub const fn place(interface: u32) -> u32 {
    interface % PLACES
}

impl Capacity {
    /// Returns the state after one more batch. Beyond twice the burst nothing is counted, so that there is room soon
    /// after an overload.
    #[inline(always)]
    #[must_use]
    pub const fn charged(&self, state: u64, now: Units) -> u64 {
        let (debt, most) = (crate::meters::gcra::debt(state, now) + self.cost, 2 * self.burst);
        now.wrapping_add(if debt < most { debt } else { most })
    }

    /// Returns whether this state has room.
    #[inline(always)]
    #[must_use]
    pub const fn has_room(&self, state: u64, now: Units) -> bool {
        crate::meters::gcra::debt(state, now) + self.cost <= self.burst
    }
}
