//! The budget of replies per second, for all CPUs and sources together. A forged source means that a host gets replies
//! to packets of others.

use crate::{
    bpf::clock::Clock,
    maps::{
        control,
        exchange::{FEW_TRIES, exchange},
        shared, this_cpu,
    },
    meters::budget,
};

/// Takes one reply from the budget. A spent budget is only read. Not inlined, so that the verifier continues behind it
/// in one state.
#[inline(never)]
pub(super) fn take() -> bool {
    let (Some(control), Some(state)) = (control::get(), shared::replies()) else { return false };
    let limit = &control.replies;
    let (now, mut found) = (Clock::read(control).units(), 0);
    let is_taken = exchange::<FEW_TRIES>(state, |seen| {
        found = seen;
        if limit.cost == 0 { None } else { budget::next(seen, now, limit.cost, limit.burst) }
    });
    if !is_taken {
        budget::cut(state, found, now, limit.burst, || Clock::read(control).units());
        this_cpu::count(|cpu| &cpu.replies_unsent);
    }
    is_taken
}
