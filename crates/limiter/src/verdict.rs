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

/// Which limit of a rule refuses a request, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// The number of the limit, from 0. Of several ones, it is the one with the longest wait.
    pub limit: usize,
    /// Why it refuses.
    pub cause: Cause,
}

/// Why a limit refuses a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The client has used the limit.
    Limit,
    /// The client has used the share that other servers leave it of the limit.
    Share,
    /// The request costs more than the limit ever admits.
    Cost,
}

impl Cause {
    /// All of them, by their numbers.
    pub const ALL: [Self; 3] = [Self::Limit, Self::Share, Self::Cost];

    /// Returns its word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Limit => "limit",
            Self::Share => "share",
            Self::Cost => "cost",
        }
    }
}

/// What the limits of a rule say.
#[derive(Debug)]
pub(super) enum Verdict {
    /// All of them admit.
    Admit { after: u64, charged: Charged },
    /// One of them refuses: the one with the longest wait.
    Refuse { refusal: Refusal, wait: u64 },
}
