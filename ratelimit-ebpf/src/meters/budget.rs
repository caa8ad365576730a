//! Budgets that are no source's limit: new buckets, unknown sources, replies, events.

use ratelimit_common::meters::gcra::{self, Answer, Units};

use crate::bpf::atomic::Word;

/// Returns the state of a budget after `cost` is taken, or `None` if the budget is spent.
///
/// A debt that this budget cannot have made comes from another budget before a change, or from before a test set the
/// clock back. The budget then starts anew.
#[inline(always)]
#[must_use]
pub fn next(state: u64, now: Units, cost: Units, burst: Units) -> Option<u64> {
    match gcra::ask(state, now, cost, burst, burst) {
        Answer::Admit(next) => Some(next),
        Answer::Refuse => None,
        Answer::Cap(_) => Some(now.wrapping_add(cost)),
    }
}

/// Takes `cost` from a budget of this CPU. Returns whether the budget had so much.
#[inline(always)]
pub fn take(state: &Word, now: Units, cost: Units, burst: Units) -> bool {
    let next = next(state.load(), now, cost, burst);
    if let Some(next) = next {
        state.store(next);
    }
    next.is_some()
}
