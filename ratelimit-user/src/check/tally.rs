//! How often a rule has decided.

use std::sync::atomic::{AtomicU64, Ordering};

/// How often a rule has decided. The limiter keeps it for those who [record](super::Record), and does not count itself.
#[derive(Debug, Default)]
pub struct Tally {
    admitted: AtomicU64,
    refused: AtomicU64,
    in_shadow: AtomicU64,
}

impl Tally {
    /// Counts a request that the rule has admitted and charged.
    pub fn admit(&self) {
        self.admitted.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request that the rule has refused, or would have, in shadow.
    pub fn refuse(&self, is_shadow: bool) {
        let counter = if is_shadow { &self.in_shadow } else { &self.refused };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how many requests it has admitted, refused, and refused in shadow.
    #[must_use]
    pub fn counts(&self) -> [u64; 3] {
        [&self.admitted, &self.refused, &self.in_shadow].map(|counter| counter.load(Ordering::Relaxed))
    }
}
