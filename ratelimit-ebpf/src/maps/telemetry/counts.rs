//! Counters in a bucket.

use ratelimit_common::{buckets::bucket::IN_SHADOW, limits::policy::SHADOW};

use crate::bpf::{atomic::Word, settings};

/// Packets and bytes that passed and that were dropped.
#[repr(C)]
pub struct Counts {
    passed_packets: Word,
    passed_bytes: Word,
    dropped_packets: Word,
    dropped_bytes: Word,
}

/// Returns whether packets that this action refuses pass.
#[inline(always)]
#[must_use]
pub fn is_shadow(action: u8) -> bool {
    settings::is_on(&settings::ACTIONS_ON) && action == SHADOW || settings::is_on(&settings::SHADOW_ON)
}

impl Counts {
    /// Returns the packets and bytes that are counted as passed.
    #[inline(always)]
    #[must_use]
    pub fn passed(&self) -> [u64; 2] {
        [self.passed_packets.load(), self.passed_bytes.load()]
    }

    /// Returns the dropped packets, with [`IN_SHADOW`].
    #[inline(always)]
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped_packets.load()
    }

    /// Counts packets that passed.
    #[inline(always)]
    pub fn count_passed(&self, packets: u64, bytes: u64) {
        self.passed_packets.add(packets);
        self.passed_bytes.add(bytes);
    }

    /// Returns whether packets that this action refuses can be added to the count. Drops and passes in shadow are never
    /// mixed.
    #[inline(always)]
    #[must_use]
    pub fn can_count(&self, action: u8) -> bool {
        let before = self.dropped_packets.load();
        before == 0 || (before ^ mark(action)) & IN_SHADOW == 0
    }

    /// Counts refused packets with their [action](ratelimit_common::limits::policy::Policy::over_limit). The count
    /// restarts when drops and passes in shadow alternate.
    #[inline(always)]
    pub fn count_dropped(&self, action: u8, packets: u64, bytes: u64) {
        let mark = mark(action);
        if (self.dropped_packets.load() ^ mark) & IN_SHADOW != 0 {
            self.dropped_packets.store(mark);
            self.dropped_bytes.store(0);
        }
        self.dropped_packets.add(packets);
        self.dropped_bytes.add(bytes);
    }
}

/// Returns [`IN_SHADOW`] if packets that this action refuses pass.
#[inline(always)]
fn mark(action: u8) -> u64 {
    if is_shadow(action) { IN_SHADOW } else { 0 }
}
