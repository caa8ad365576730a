//! Debts, bans and the learned rate, in a form that outlasts the maps: with addresses in place of hashes, services in place of classes, and
//! the time that is left in place of a moment of the monotonic clock. How they are stored belongs to `controller`.
//!
//! A source's debt is in two stages: in its bucket, and in the level that its cell shows. Both together are what a
//! [token bucket](ratelimit_common::meters::gcra) would owe. In another instance, sources have other cells, so this sum is
//! divided again.

pub mod denied;
pub mod read;
pub mod restore;
mod words;

use ratelimit_base::text::prefix::Prefix;
use ratelimit_common::{cells::learned_rate::LearnedRate, identity::service::Service};

/// Debts and bans of an instance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Saved {
    /// What sources owe.
    pub debts: Vec<Debt>,
    /// The bans in force.
    pub bans: Vec<Ban>,
    /// What the program has learned about the rate of unknown sources. None if it does not learn it.
    pub learned: Option<LearnedRate>,
}

impl Saved {
    /// Returns whether there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.debts.is_empty() && self.bans.is_empty() && self.learned.is_none()
    }
}

/// What one source owes in one service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Debt {
    /// The source.
    pub source: Prefix,
    /// The service that is billed.
    pub service: Service,
    /// Nanoseconds until nothing is owed: of the limit of packets, and of the second limit.
    pub left: [u64; 2],
}

impl Debt {
    /// Returns the nanoseconds until nothing is owed in either limit.
    #[must_use]
    pub fn longest(&self) -> u64 {
        self.left[0].max(self.left[1])
    }
}

/// The ban of one source in one service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ban {
    /// The source.
    pub source: Prefix,
    /// The service whose packets are refused.
    pub service: Service,
    /// Nanoseconds until its end.
    pub left: u64,
    /// How often its time was doubled.
    pub doubled: u8,
}
