//! The budgets of look-ups, and the rate of packets that are spared.

use ratelimit_common::{
    limits::limit::SECOND,
    maps::control::Control,
    meters::gcra::{self, Units},
};

use crate::{
    bpf::{atomic::Word, clock::Clock},
    maps::{
        exchange::{self, FEW_TRIES, exchange},
        this_cpu,
    },
    meters::budget,
};

/// Longest debt of a source with look-ups in vain: those of one second.
const OF_A_SECOND: Units = gcra::units(SECOND);
/// Cost of a look-up in vain for a source with own connections: 16 per second.
const OF_A_PEER: Units = OF_A_SECOND / 16;
/// Cost of a look-up for a CPU: 50,000 per second for TCP and as many for UDP, less than a hundredth of its time.
const OF_A_CPU: Units = gcra::units(SECOND / 50_000);
/// Look-ups that a CPU may do at once. The coarse clock may stand still for 10 ms.
const BURST_OF_A_CPU: Units = 1_000 * OF_A_CPU;

/// The budgets that apply to a look-up.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    /// Own connections got packets from the source.
    pub(super) is_peer: bool,
    pub(super) is_tcp: bool,
}

/// Result of [`take`] if a budget is spent. No state of the source's budget is odd.
pub(super) const SPENT: u64 = 1;
/// Stands for a look-up that takes from no budget.
pub(super) const FREE: u64 = 3;

/// Returns whether the budget of a source without own connections is spent.
#[inline(always)]
pub(super) fn is_spent(look_ups: &Word, control: &Control, tick: u64) -> bool {
    let (now, seen) = (gcra::units(tick), look_ups.load());
    let is_spent = budget::next(seen, now, OF_A_SECOND, OF_A_SECOND).is_none();
    if is_spent {
        budget::cut(look_ups, seen, now, OF_A_SECOND, || Clock::coarse(control).units());
    }
    is_spent
}

/// Takes a look-up from the budgets of the source and of this CPU. Returns the state of the source's budget, for
/// [`give_back`].
#[inline(never)]
pub(super) fn take(look_ups: &Word, kind: Kind, control: &Control, tick: u64) -> u64 {
    let (now, seen) = (gcra::units(tick), look_ups.load());
    let Some(next) = budget::next(seen, now, cost(kind), OF_A_SECOND) else {
        budget::cut(look_ups, seen, now, OF_A_SECOND, || Clock::coarse(control).units());
        return SPENT;
    };
    let Some(cpu) = this_cpu::get() else { return SPENT };
    let [tcp, udp] = &cpu.own_budgets;
    if !budget::take(if kind.is_tcp { tcp } else { udp }, now, OF_A_CPU, BURST_OF_A_CPU) {
        cpu.own_not_looked_up.increment();
        return SPENT;
    }
    if look_ups.compare_exchange(seen, next).is_ok() { next } else { SPENT }
}

/// Gives a look-up back that was not in vain.
#[inline(always)]
pub(super) fn give_back(look_ups: &Word, taken: u64, kind: Kind) {
    exchange::undo(look_ups, taken, cost(kind));
}

#[inline(always)]
const fn cost(kind: Kind) -> Units {
    if kind.is_peer { OF_A_PEER } else { OF_A_SECOND }
}

/// Takes one packet from the rate of a source's own connections.
#[inline(never)]
pub(super) fn is_within_rate(rate: &Word, control: &Control, tick: u64) -> bool {
    let (now, mut found) = (gcra::units(tick), 0);
    let is_taken = exchange::<FEW_TRIES>(rate, |state| {
        found = state;
        budget::next(state, now, control.own.cost, control.own.burst)
    });
    if !is_taken {
        budget::cut(rate, found, now, control.own.burst, || Clock::coarse(control).units());
    }
    is_taken
}
