//! The textbook token bucket in exact integers, which tests compare the product with.

use ratelimit_common::limits::limit::Rate;

/// A bucket of tokens. One token is one packet or one byte.
#[derive(Debug, Clone)]
pub struct Tokens {
    rate: Rate,
    /// Tokens times the rate's period, to avoid division.
    level: u128,
    capacity: u128,
    /// Nanoseconds.
    time: u64,
}

impl Tokens {
    /// Returns a full bucket with this rate, at `time` in nanoseconds.
    #[must_use]
    pub fn full(rate: Rate, burst: u64, time: u64) -> Self {
        let capacity = u128::from(burst) * u128::from(rate.period);
        Self { rate, level: capacity, capacity, time }
    }

    /// Advances the time to `time`.
    pub fn advance(&mut self, time: u64) {
        let gained = u128::from(time - self.time) * u128::from(self.rate.amount);
        self.level = self.capacity.min(self.level + gained);
        self.time = time;
    }

    /// Takes `count` tokens if they are available.
    pub fn take(&mut self, count: u64) -> bool {
        let cost = u128::from(count) * u128::from(self.rate.period);
        let enough = self.level >= cost;
        if enough {
            self.level -= cost;
        }
        enough
    }
}

/// Returns the bound of admitted packets in `nanoseconds`: burst + rate × time + 1 (G1), with a rate that is a
/// thousandth higher (G3).
#[must_use]
pub fn bound(rate: Rate, burst: u64, nanoseconds: u64) -> u64 {
    let flow = u128::from(nanoseconds) * u128::from(rate.amount) / u128::from(rate.period);
    burst + u64::try_from(flow + flow / 1_000).expect("the time exceeds the range") + 1
}
