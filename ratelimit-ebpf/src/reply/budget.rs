//! How many answers there may be: so many a second, all CPUs and sources together. Their receivers are often not those who have sent.

use ratelimit_common::meters::gcra::{self, Answer};

use crate::{
    bpf::clock::Clock,
    maps::{
        all::{CONTROL, REPLIES},
        this_cpu,
    },
    meters::charge::{self, Charge},
};

/// Takes one answer from the budget. Where it is spent, the word that all CPUs share is only read. A function of its own, for the
/// verifier to go on from it in one state.
#[inline(never)]
pub(super) fn take() -> bool {
    let (Some(control), Some(state)) = (CONTROL.get(0), REPLIES.get(0)) else { return false };
    let budget = &control.replies;
    let now = Clock::read(control).units();
    let outcome = charge::exchange::<{ charge::FEW_TRIES }>(state, |seen| {
        match gcra::ask(seen, now, budget.cost, budget.capacity, budget.capacity) {
            Answer::Admit(next) if budget.cost != 0 => Some(next),
            Answer::Admit(_) | Answer::Refuse => None,
            Answer::Cap(next) => {
                // Of a smaller budget, before it was changed. Another CPU may be first: the next packet finds the same.
                let _ = state.compare_exchange(seen, next);
                None
            }
        }
    });
    let is_taken = outcome == Charge::Paid;
    if !is_taken && let Some(own) = this_cpu::own() {
        own.replies_unsent.increment();
    }
    is_taken
}
