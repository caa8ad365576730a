//! The algorithms of limits, and why a limit is not accepted.

/// How a limit counts. docs/requests.md compares them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Algorithm {
    /// Tokens that come back one by one.
    #[default]
    TokenBucket,
    /// A queue that drains at the rate, as a meter, which delays nothing: the same as the token bucket.
    LeakyBucket,
    /// A queue that drains at the rate. A request that is admitted gets the time after which it may go on. A full queue
    /// refuses.
    Queue,
    /// A count that restarts with each period of the clock. Up to twice the limit may pass around the edge of two periods.
    FixedWindow,
    /// The count of this period, plus the weighted count of the period before.
    SlidingWindow,
    /// The counts of 60 parts of a period, of which the oldest one is weighted.
    SlidingCounters,
    /// The times of all requests of the last period. A limit above 1,024 joins those of the same 1,024th of a period.
    SlidingLog,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::TokenBucket,
        Self::LeakyBucket,
        Self::Queue,
        Self::FixedWindow,
        Self::SlidingWindow,
        Self::SlidingCounters,
        Self::SlidingLog,
    ];

    /// Returns the name in files and answers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TokenBucket => "token-bucket",
            Self::LeakyBucket => "leaky-bucket",
            Self::Queue => "queue",
            Self::FixedWindow => "fixed-window",
            Self::SlidingWindow => "sliding-window",
            Self::SlidingCounters => "sliding-counters",
            Self::SlidingLog => "sliding-log",
        }
    }

    /// Returns the one with this name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }
}

/// Reason why a limit is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// A rate outside its bounds.
    #[error("a rate must be between 1/d and 100M/s")]
    Rate,
    /// A burst of nothing.
    #[error("a burst must be at least 1 request")]
    NoBurst,
    /// A burst that takes longer than 52 days to drain, with the largest one that does not.
    #[error("a burst must drain within 52 days: at this rate, at most {0} requests")]
    Burst(u64),
    /// A burst of an algorithm that has none.
    #[error("{} has no burst: all requests of a period may come at once. Leave the burst away", .0.name())]
    BurstOfWindow(Algorithm),
    /// More than a window can count, with the largest count.
    #[error("{name} counts up to {1} in a period of this length: give a smaller rate, or another algorithm", name = .0.name())]
    Window(Algorithm, u64),
    /// Too few hundredths of a limit.
    #[error("{0} % of this limit is less than one request: give a larger share")]
    Hundredths(u8),
}
