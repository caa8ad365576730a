//! Token bucket, and leaky bucket as a meter. An amount above the burst passes an idle bucket and is charged in full.

use ratelimit_common::limits::limit::Rate;

use super::definition::Definition;

/// Tokens that return one by one. All amounts are multiplied by the rate's period to avoid division.
pub struct Tokens {
    rate: Rate,
    capacity: i128,
    level: i128,
    /// Time of the level.
    time: u64,
}

impl Tokens {
    /// Returns a full bucket.
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

/// The length of a queue that drains at a constant rate. All amounts are multiplied by the rate's period.
pub struct Leaky {
    rate: Rate,
    most: u128,
    queued: u128,
    /// Time of the queue length.
    time: u64,
}

impl Leaky {
    /// Returns an empty queue with capacity `most`.
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
