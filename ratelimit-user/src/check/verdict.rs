//! What a limit, and all limits of a rule, say about a request.

use smallvec::SmallVec;

/// The wait of a request that costs more than a limit.
pub(super) const NEVER: u64 = u64::MAX;
/// The most limits of a rule.
pub const MOST_LIMITS: usize = 8;

/// What a rule has charged, so that it can be given back: for each limit, whether it was the limit or its soft part.
pub(super) type Charged = SmallVec<[Part; MOST_LIMITS]>;

/// Which part of a limit a request was charged to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Limit,
    Soft,
    /// None: the caller has room for more.
    Room,
}

/// What the limits of a rule say.
#[derive(Debug)]
pub(super) enum Verdict {
    /// All of them admit.
    Admit { after: u64, charged: Charged },
    /// One of them refuses: the one with the longest wait.
    Refuse { limit: usize, wait: u64 },
}

/// What a limit answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// The request is admitted. It may go on after so many nanoseconds.
    Admit {
        /// 0, unless the limit is a queue.
        after: u64,
    },
    /// The request is refused.
    Refuse {
        /// Nanoseconds after which the same request is admitted, if nothing else is admitted meanwhile. [`NEVER`] if it
        /// costs more than the limit.
        wait: u64,
    },
}
