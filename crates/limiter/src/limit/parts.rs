//! A sliding window of many small counters.
//!
//! A period has 60 parts: minutes of an hour, or seconds of a minute. The window ends now, so it covers the oldest part
//! only in part. That count is weighted, as in [`ratelimit_common::meters::window`].

use super::look::Look;

/// Parts of a period.
const PARTS: usize = 60;
/// Counters: the parts, and the one that the window covers in part.
const COUNTERS: usize = PARTS + 1;

/// A limit that counts in parts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parts {
    limit: u64,
    /// Nanoseconds of a part.
    length: u64,
}

/// The counts of a client.
#[derive(Debug, Clone)]
pub(crate) struct Counts {
    /// Number of the newest part since the clock's beginning.
    newest: u64,
    /// Nanoseconds of a part. A rule of the same name may have had others.
    length: u64,
    /// Each part has the place of its number. Those that have ended are 0.
    counts: [u64; COUNTERS],
}

impl Default for Counts {
    fn default() -> Self {
        Self { newest: 0, length: 0, counts: [0; COUNTERS] }
    }
}

impl Counts {
    /// Forgets what is older than the window, and returns the count of all parts but the oldest, and that of the oldest.
    fn advance(&mut self, newest: u64, length: u64) -> [u64; 2] {
        if self.length != length {
            *self = Self { length, newest, ..Self::default() };
        }
        // A clock that goes back counts in the part that was the newest.
        for number in (self.newest + 1..=newest).take(COUNTERS) {
            self.counts[number as usize % COUNTERS] = 0;
        }
        self.newest = self.newest.max(newest);
        let oldest = self.counts[(self.newest + 1) as usize % COUNTERS];
        [self.counts.iter().sum::<u64>() - oldest, oldest]
    }

    fn newest(&mut self) -> &mut u64 {
        &mut self.counts[self.newest as usize % COUNTERS]
    }

    /// Returns the counts from the oldest part on.
    fn oldest_first(&self) -> impl Iterator<Item = u64> {
        (1..=COUNTERS).map(|step| self.counts[(self.newest as usize + step) % COUNTERS])
    }
}

impl Parts {
    /// Bytes of the counts of a client.
    pub(crate) const BYTES: usize = size_of::<Counts>();

    pub(crate) fn new(limit: u64, period: u64) -> Self {
        Self { limit, length: (period / PARTS as u64).max(1) }
    }

    /// Returns the number of the part at `now`, and the nanoseconds of it that are left.
    fn place(&self, now: u64) -> (u64, u64) {
        (now / self.length, self.length - now % self.length)
    }

    /// Returns what is counted, rounded up.
    fn counted(&self, counts: &mut Counts, now: u64) -> u64 {
        let (number, left) = self.place(now);
        let [full, oldest] = counts.advance(number, self.length);
        let weighted = (u128::from(oldest) * u128::from(left)).div_ceil(u128::from(self.length));
        full.saturating_add(weighted as u64)
    }

    pub(crate) fn ask(&self, counts: &mut Counts, now: u64, cost: u32) -> Look {
        let counted = self.counted(counts, now);
        if counted + u64::from(cost) <= self.limit {
            return Look::Admit { after: 0 };
        }
        let room = self.limit.saturating_sub(u64::from(cost));
        let (_, mut left) = self.place(now);
        // The oldest part goes first, evenly over the rest of the newest one, and then one part after the other.
        let (mut wait, mut above) = (0, counts.oldest_first().sum::<u64>().saturating_sub(room));
        for count in counts.oldest_first() {
            if count >= above {
                // It weighs `count` times the part that is left of it.
                let remains = u128::from(count - above) * u128::from(self.length) / u128::from(count.max(1));
                return Look::Refuse { wait: wait + left.saturating_sub(remains as u64) };
            }
            above -= count;
            wait += left;
            left = self.length;
        }
        Look::Refuse { wait }
    }

    pub(crate) fn charge(&self, counts: &mut Counts, now: u64, cost: u32) {
        counts.advance(self.place(now).0, self.length);
        let newest = counts.newest();
        *newest = newest.saturating_add(u64::from(cost));
    }

    pub(crate) fn give_back(&self, counts: &mut Counts, now: u64, cost: u32) {
        // Another part has begun: the charge stays, and nothing is minted.
        if counts.newest == self.place(now).0 && counts.length == self.length {
            let newest = counts.newest();
            *newest = newest.saturating_sub(u64::from(cost));
        }
    }

    pub(crate) fn left(&self, counts: &mut Counts, now: u64) -> (u64, u64) {
        let room = self.limit.saturating_sub(self.counted(counts, now));
        let (_, left) = self.place(now);
        let last = counts.oldest_first().enumerate().filter(|(_, count)| *count > 0).last();
        (room, last.map_or(0, |(steps, _)| left + steps as u64 * self.length))
    }
}
