//! Failures of changes of lists.

use ratelimit_common::rules::list::LISTS_MAX;

/// A list that cannot be set.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// All numbers are taken.
    #[error("{LISTS_MAX} lists exist, the maximum: delete one with `ratelimit list del NAME` first")]
    TooMany,
    /// The lists would have too many entries.
    #[error("all lists together would have {found} {kind}, at most {most} are possible: shorten a list or delete one")]
    TooLong {
        /// Addresses or prefixes.
        kind: &'static str,
        /// How many there would be.
        found: usize,
        /// The most.
        most: u32,
    },
}
