//! The token bucket, and the leaky bucket as a meter. What counts as more than the whole bucket passes when that is idle, and is paid in full.

use ratelimit_common::limits::limit::Rate;

use super::Definition;

/// Tokens that come back one by one. All amounts are times the rate's period, so that nothing is divided.
pub struct Tokens {
    rate: Rate,
    capacity: i128,
    level: i128,
    /// When the level was that.
    time: u64,
}

impl Tokens {
    /// A full bucket.
    #[must_use]
    pub fn full(rate: Rate, burst: u64) -> Self {
        let capacity = i128::from(burst) * i128::from(rate.period);
        Self { rate, capacity, level: capacity, time: 0 }
    }

    fn level(&self, now: u64) -> i128 {
        self.capacity.min(self.level + i128::from(now - self.time) * i128::from(self.rate.amount))
    }

    fn cost(&self, amount: u64) -> i128 {
        i128::from(amount) * i128::from(self.rate.period)
    }
}

impl Definition for Tokens {
    fn fits(&self, now: u64, amount: u64) -> bool {
        let level = self.level(now);
        level == self.capacity || level >= self.cost(amount)
    }

    fn take(&mut self, now: u64, amount: u64) {
        (self.level, self.time) = (self.level(now) - self.cost(amount), now);
    }
}

/// A queue that drains at a constant rate, of which only the length is kept. All amounts are times the rate's period.
pub struct Leaky {
    rate: Rate,
    most: u128,
    queued: u128,
    /// When so much was queued.
    time: u64,
}

impl Leaky {
    /// An empty queue with room for `most`.
    #[must_use]
    pub fn empty(rate: Rate, most: u64) -> Self {
        Self { rate, most: u128::from(most) * u128::from(rate.period), queued: 0, time: 0 }
    }

    fn queued(&self, now: u64) -> u128 {
        self.queued.saturating_sub(u128::from(now - self.time) * u128::from(self.rate.amount))
    }

    fn with(&self, now: u64, amount: u64) -> u128 {
        self.queued(now) + u128::from(amount) * u128::from(self.rate.period)
    }
}

impl Definition for Leaky {
    fn fits(&self, now: u64, amount: u64) -> bool {
        self.queued(now) == 0 || self.with(now, amount) <= self.most
    }

    fn take(&mut self, now: u64, amount: u64) {
        (self.queued, self.time) = (self.with(now, amount), now);
    }
}
