//! Budgets that are no source's limit: new buckets, unknown sources, replies, events.

use ratelimit_common::meters::gcra::{self, Answer, SLACK, Units};

use crate::bpf::atomic::Word;

/// Returns the state of a budget after `cost` is taken, or `None` if the budget is spent. If the CPUs share the budget,
/// [`cut`] must follow then.
#[inline(always)]
#[must_use]
pub fn next(state: u64, now: Units, cost: Units, burst: Units) -> Option<u64> {
    match gcra::ask(state, now, cost, burst, burst) {
        Answer::Admit(next) => Some(next),
        Answer::Refuse | Answer::Cap(_) => None,
    }
}

/// Cuts a debt that this budget cannot have made, for the packets to come. It comes from another budget before a change,
/// from long ago, since time wraps, or from before a test set the clock back.
///
/// `again` reads the clock after the state. This CPU may have been stopped since `now`, while others spent the budget.
/// But none of them can have read a later time than this one.
#[inline(always)]
pub fn cut(state: &Word, seen: u64, now: Units, burst: Units, again: impl FnOnce() -> Units) {
    if gcra::debt(seen, now) > burst + SLACK {
        let now = again();
        if gcra::debt(seen, now) > burst + SLACK {
            // If another CPU is first, the next packet finds the same debt.
            let _ = state.compare_exchange(seen, now.wrapping_add(burst));
        }
    }
}

/// Takes `cost` from a budget of this CPU, which no other one changes. Returns whether the budget had so much. With a
/// debt that it cannot have made, it starts anew.
#[inline(always)]
pub fn take(state: &Word, now: Units, cost: Units, burst: Units) -> bool {
    let next = match gcra::ask(state.load(), now, cost, burst, burst) {
        Answer::Admit(next) => next,
        Answer::Refuse => return false,
        Answer::Cap(_) => now.wrapping_add(cost),
    };
    state.store(next);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::schedule::own;

    const COST: Units = 1 << 20;
    const BURST: Units = 100 * COST;

    /// A tick of the coarse clock passes between reading the clock and taking from the budget.
    #[test]
    fn a_packet_with_an_old_time_does_not_renew_a_spent_budget() {
        let state: &Word = own::zeros();
        let (before, after) = (SLACK << 10, (SLACK << 10) + 4 * SLACK);
        state.store(after + BURST);
        assert_eq!(next(state.load(), before, COST, BURST), None);
        cut(state, state.load(), before, BURST, || after);
        assert_eq!(state.load(), after + BURST);
    }

    #[test]
    fn a_debt_that_the_budget_cannot_have_made_is_cut_to_the_burst() {
        let state: &Word = own::zeros();
        let now = SLACK << 10;
        state.store(now + BURST + 2 * SLACK);
        assert_eq!(next(state.load(), now, COST, BURST), None);
        cut(state, state.load(), now, BURST, || now);
        assert_eq!(state.load(), now + BURST);
        assert!(next(state.load(), now + COST, COST, BURST).is_some());
    }
}
