//! What a source has sent.

use ratelimit_common::buckets::bucket::Bucket;

/// What a source has sent, as far as its bucket has counted it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets, also refused ones.
    pub packets: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Those of the packets that were dropped.
    pub dropped: u64,
}

impl Counts {
    /// Returns what a bucket has counted.
    #[must_use]
    pub const fn of(bucket: &Bucket) -> Self {
        let (dropped, would_drop) = (bucket.dropped(), bucket.would_drop());
        Self {
            packets: bucket.passed().saturating_add(bucket.over_limit()),
            bytes: bucket.passed_bytes.saturating_add(dropped.bytes).saturating_add(would_drop.bytes),
            dropped: dropped.packets,
        }
    }

    /// Returns what was counted since an earlier look. A bucket that was created again counts from 0.
    pub(super) const fn since(self, earlier: Self) -> Self {
        if self.packets < earlier.packets {
            return self;
        }
        Self {
            packets: self.packets - earlier.packets,
            bytes: self.bytes.saturating_sub(earlier.bytes),
            dropped: self.dropped.saturating_sub(earlier.dropped),
        }
    }

    /// Adds further counts.
    pub const fn add(&mut self, other: Self) {
        self.packets = self.packets.saturating_add(other.packets);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.dropped = self.dropped.saturating_add(other.dropped);
    }
}
