//! The budget of replies per second, for all CPUs and sources together. A forged source means that a host gets replies
//! to packets of others.

use ratelimit_common::meters::gcra::{self, Answer};

use crate::{
    bpf::clock::Clock,
    maps::{
        budgets, control,
        exchange::{FEW_TRIES, exchange},
        this_cpu,
    },
};

/// Takes one reply from the budget. A spent budget is only read. Not inlined, so that the verifier continues behind it
/// in one state.
#[inline(never)]
pub(super) fn take() -> bool {
    let (Some(control), Some(state)) = (control::get(), budgets::replies()) else { return false };
    let budget = &control.replies;
    let now = Clock::read(control).units();
    let is_taken = exchange::<FEW_TRIES>(state, |seen| {
        match gcra::ask(seen, now, budget.cost, budget.burst, budget.burst) {
            Answer::Admit(next) if budget.cost != 0 => Some(next),
            Answer::Admit(_) | Answer::Refuse => None,
            Answer::Cap(next) => {
                // The debt is that of a larger budget, before a change. If another CPU is first, the next packet finds
                // the same.
                let _ = state.compare_exchange(seen, next);
                None
            }
        }
    });
    if !is_taken {
        this_cpu::count(|cpu| &cpu.replies_unsent);
    }
    is_taken
}
