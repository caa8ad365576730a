//! How often a rule has decided.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use super::verdict::{Cause, MOST_LIMITS, Refusal};

/// How often a rule has decided. The limiter keeps it for those who [record](super::Record), and does not count itself.
#[derive(Debug, Default)]
pub struct Tally {
    /// Requests that it has admitted, refused, and refused in shadow.
    decisions: Arc<[AtomicU64; 3]>,
    /// Refusals by limit and cause.
    refusals: [[AtomicU64; Cause::ALL.len()]; MOST_LIMITS],
}

impl Tally {
    /// Counts a request that the rule has admitted and charged.
    pub fn admit(&self) {
        let [admitted, ..] = &*self.decisions;
        admitted.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request that the rule has refused, or would have, in shadow.
    pub fn refuse(&self, is_shadow: bool, refusal: Refusal) {
        let [_, refused, in_shadow] = &*self.decisions;
        let counter = if is_shadow { in_shadow } else { refused };
        counter.fetch_add(1, Ordering::Relaxed);
        let of_limit = self.refusals.get(refusal.limit);
        if let Some(counter) = of_limit.and_then(|causes| causes.get(refusal.cause as usize)) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns how many requests it has admitted, refused, and refused in shadow.
    #[must_use]
    pub fn counts(&self) -> [u64; 3] {
        self.decisions.each_ref().map(|counter| counter.load(Ordering::Relaxed))
    }

    /// Returns the refusals of each limit, in shadow too, in the order of [`Cause::ALL`].
    pub fn refusals(&self) -> impl Iterator<Item = [u64; Cause::ALL.len()]> {
        self.refusals.iter().map(|causes| causes.each_ref().map(|counter| counter.load(Ordering::Relaxed)))
    }

    /// Returns the tally of the same rule with other limits from now on. Both share what the rule has decided.
    pub(super) fn with_other_limits(&self) -> Self {
        Self { decisions: Arc::clone(&self.decisions), refusals: Default::default() }
    }
}
