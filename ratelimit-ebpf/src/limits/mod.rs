//! Asks the limits of a source: its cell, its own bucket or log, and its parents. The arithmetic of a single limit
//! belongs in `meters`.
//!
//! - The cell is charged first. The level that this compare-and-exchange replaced tells how much room was left. So two
//!   packets never get the same room.
//! - Each limit other than the default charges levels of its own, so no limit takes room from another.
//! - Both limits, packets and bytes, are checked before either is charged. A charge is given back if another CPU takes
//!   the other limit first.
//! - Windows and logs do not charge cells: the count of a neighbour would refuse a newcomer until the window ends,
//!   perhaps for an hour. In return, a recycled window starts empty. A source that was refused stays refused by its
//!   cached refusal, for at most 73 minutes.

#[cfg(test)]
mod contention;
pub mod further;
pub mod parents;
pub mod source_bucket;
pub mod source_limits;
pub mod stages;
