//! What a client has used of one limit.

use smallvec::SmallVec;

use super::{log::Times, parts::Counts};

/// What a client has used of one limit.
#[derive(Debug, Clone)]
pub(crate) enum State {
    /// Of a bucket or a window. See [`ratelimit_common::meters::state`].
    Word(u64),
    /// Of the parts of a window.
    Parts(Box<Counts>),
    /// Of a log.
    Log(Box<Times>),
    /// Of no limit: the last request of the client, behind the states of all limits.
    Seen(u64),
}

/// What a client has used of the limits of a rule, in their order, and then of its soft limits. Behind them is when it was
/// seen, if the rule bounds how long it remembers a client.
pub(crate) type States = SmallVec<[State; 1]>;
