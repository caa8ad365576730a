//! The budgets of look-ups and of SYN cookies.

use ratelimit_common::{
    limits::limit::SECOND,
    meters::gcra::{self, Units},
};

use crate::{
    bpf::clock::Clock,
    cells::unknown_rate,
    maps::{
        control,
        exchange::{FEW_TRIES, exchange},
        shared, this_cpu,
    },
    meters::budget,
};

/// Cost of a look-up for a CPU: 500,000 per second. At 100 ns each, a flood costs a twentieth of its time.
const OF_A_CPU: Units = gcra::units(SECOND / 500_000);
/// Look-ups that a CPU may do at once. The coarse clock may stand still for 10 ms.
const BURST: Units = 5_000 * OF_A_CPU;

/// Takes a look-up from the budget of this CPU.
#[inline(always)]
pub(super) fn take_look_up(tick: u64) -> bool {
    let Some(cpu) = this_cpu::get() else { return false };
    let is_taken = budget::take(&cpu.proof_budget, gcra::units(tick), OF_A_CPU, BURST);
    if is_taken { &cpu.proofs_looked_up } else { &cpu.proofs_not_looked_up }.increment();
    is_taken
}

/// Takes a SYN cookie from the budget of all CPUs, before the look-up of its port. So a flood to closed ports costs no
/// more look-ups. While more than half of the burst is spent, sources take turns.
#[inline(never)]
pub(super) fn take_cookie(hash: u64, tick: u64) -> bool {
    let (Some(control), Some(state)) = (control::get(), shared::cookies()) else { return false };
    let (limit, now, mut found) = (&control.proofs, gcra::units(tick), state.load());
    let is_taken = unknown_rate::has_turn(limit.burst, found, tick, hash)
        && exchange::<FEW_TRIES>(state, |seen| {
            found = seen;
            if limit.cost == 0 { None } else { budget::next(seen, now, limit.cost, limit.burst) }
        });
    if !is_taken {
        budget::cut(state, found, now, limit.burst, || Clock::coarse(control).units());
        this_cpu::count(|cpu| &cpu.cookies_unsent);
    }
    is_taken
}
