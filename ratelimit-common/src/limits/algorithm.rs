//! The algorithms of limits.

/// Algorithm of a limit. The discriminant is the value of
/// [`Policy::algorithm`](crate::limits::policy::Policy::algorithm).
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Algorithm {
    /// Tokens that come back one by one. See [`crate::meters::gcra`].
    #[default]
    TokenBucket = 0,
    /// A queue that drains at a constant rate. As a meter, which delays nothing, it equals the token bucket with the
    /// burst as the queue's length.
    LeakyBucket = 1,
    /// A count that restarts with each window of the clock. See [`crate::meters::window`].
    FixedWindow = 2,
    /// The count of this window, plus the weighted count of the window before. See [`crate::meters::window`].
    SlidingWindow = 3,
    /// The time of every packet of the last window. See [`crate::meters::sliding_log`].
    SlidingLog = 4,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::TokenBucket, Self::LeakyBucket, Self::FixedWindow, Self::SlidingWindow, Self::SlidingLog];

    /// Returns the algorithm with this number.
    #[must_use]
    pub fn of(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| *algorithm as u8 == number)
    }

    /// Returns the name in commands and output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TokenBucket => "token-bucket",
            Self::LeakyBucket => "leaky-bucket",
            Self::FixedWindow => "fixed-window",
            Self::SlidingWindow => "sliding-window",
            Self::SlidingLog => "sliding-log",
        }
    }

    /// Returns whether it counts in windows of the clock, in one word.
    #[inline(always)]
    #[must_use]
    pub const fn is_window(self) -> bool {
        matches!(self, Self::FixedWindow | Self::SlidingWindow)
    }

    /// Returns whether it is a [generic cell rate algorithm](crate::meters::gcra). Only those use cells.
    #[inline(always)]
    #[must_use]
    pub const fn is_bucket(self) -> bool {
        matches!(self, Self::TokenBucket | Self::LeakyBucket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_algorithms_agree() {
        for algorithm in Algorithm::ALL {
            assert_eq!(Algorithm::of(algorithm as u8), Some(algorithm));
        }
        assert_eq!(Algorithm::of(5), None);
    }
}
