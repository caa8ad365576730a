//! What the limits of a rule say about a request.

use smallvec::SmallVec;

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
