//! Charges a source that stays at its limit: its cell has no room, and its own bucket pays each packet.

use ratelimit_common::meters::{
    gcra::Units,
    stages::{self, Held},
};

use crate::{
    bpf::{clock::Clock, settings},
    limits::stages::pair::Pair,
    maps::{
        exchange::undo,
        this_cpu::{self, OWN},
    },
};

/// Charges the level and the own bucket of one limit, each at the first try. Returns `false`, with nothing charged, if
/// the cell has room, the own bucket does not have enough of it, or another CPU was faster. `limit` is 0 for packets,
/// and 1 for the second limit.
#[inline(always)]
#[must_use]
pub fn pay(pair: &Pair<'_>, limit: usize, amount: u32, clock: &Clock<'_>, is_coarse: bool) -> bool {
    let (level, own, meter) = (pair.level, pair.own, pair.meter);
    let (cost, now) = (meter.cost_of(amount), clock.units());
    let (level_seen, own_seen) = (level.load(), own.load());
    let level_debt = stages::level_debt(level_seen, now, clock.largest_debt());
    let Some(Held { charged, paid, is_older }) = stages::ask_held(level_debt, own_seen, now, cost, meter) else {
        return false;
    };
    if level.compare_exchange(level_seen, charged).is_err() {
        this_cpu::lost_race();
        return false;
    }
    let paid = if is_older { stages::paid(own_seen, later(clock, is_coarse), cost) } else { paid };
    if own.compare_exchange(own_seen, paid).is_err() {
        this_cpu::lost_race();
        undo(level, charged, cost);
        return false;
    }
    if settings::is_on(&settings::PARENTS_ON)
        && let Some(payment) = this_cpu::payments(OWN).and_then(|payments| payments.get(limit))
    {
        payment.record_level(cost, charged);
        payment.record_own(cost, paid);
    }
    true
}

/// Reads the clock of the limit again.
#[inline(always)]
fn later(clock: &Clock<'_>, is_coarse: bool) -> Units {
    if is_coarse { Clock::coarse(clock.control()).units() } else { clock.read_again() }
}
