//! What a bucket has counted.

use ratelimit_common::{buckets::bucket::IN_SHADOW, limits::policy::SHADOW};

use crate::bpf::{atomic::Word, settings};

/// Packets and bytes that passed and that were dropped, as the CPUs share them.
#[repr(C)]
pub struct Counts {
    passed_packets: Word,
    passed_bytes: Word,
    dropped_packets: Word,
    dropped_bytes: Word,
}

/// Whether what this action refuses passes.
#[inline(always)]
#[must_use]
pub fn is_shadow(action: u8) -> bool {
    settings::is_on(&settings::ACTIONS_ON) && action == SHADOW || settings::is_on(&settings::SHADOW_ON)
}

impl Counts {
    /// None so far.
    #[inline(always)]
    #[must_use]
    pub const fn nothing() -> Self {
        let [passed_packets, passed_bytes, dropped_packets, dropped_bytes] = [const { Word::new(0) }; 4];
        Self { passed_packets, passed_bytes, dropped_packets, dropped_bytes }
    }

    /// What passed as far as it is counted, in packets and bytes.
    #[inline(always)]
    #[must_use]
    pub fn passed(&self) -> [u64; 2] {
        [self.passed_packets.load(), self.passed_bytes.load()]
    }

    /// What was dropped, with [`IN_SHADOW`].
    #[inline(always)]
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped_packets.load()
    }

    /// Counts what passed.
    #[inline(always)]
    pub fn count_passed(&self, packets: u64, bytes: u64) {
        self.passed_packets.add(packets);
        self.passed_bytes.add(bytes);
    }

    /// Whether what this action has refused can be added to what was counted before.
    #[inline(always)]
    #[must_use]
    pub fn can_count(&self, action: u8) -> bool {
        let before = self.dropped_packets.load();
        before == 0 || (before ^ mark(action)) & IN_SHADOW == 0
    }

    /// Counts what was dropped, or would have been by this [action](ratelimit_common::limits::policy::Policy::over_limit). Either begins anew after the
    /// other.
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

/// [`IN_SHADOW`] where what this action refuses passes.
#[inline(always)]
fn mark(action: u8) -> u64 {
    if is_shadow(action) { IN_SHADOW } else { 0 }
}
