//! The first stage: a cell's levels of packets, and of bytes or second limits.

use ratelimit_common::{
    limits::policy::Policy,
    meters::{gcra::Units, meter::Meter, stages},
};

use crate::{
    bpf::{atomic::Word, clock::Clock, verifier::given},
    maps::{
        cells::Cell,
        exchange::{self, Addition, Charge, TRIES, undo},
    },
    meters::gcra::{REFUSED, charged},
    packet::context::Context,
};

/// Charges the cell with a packet that fits the cell's share of the burst.
#[inline(always)]
pub fn ask(cell: &Cell, policy: &Policy, clock: &Clock<'_>, context: &Context) -> Charge {
    if policy.second.is_on() {
        return ask_second(cell, policy, clock, context.amounts(policy));
    }
    match charge_level(&cell.packets, &policy.packets, clock, policy.packets.cost_of(context.cost())) {
        Some(_) => Charge::Paid,
        None => Charge::Refused,
    }
}

/// Charges a second limit, and the one of packets if it is on. Both are checked before either is charged.
#[inline(never)]
fn ask_second(
    cell: &Cell,
    Policy { packets, second, .. }: &Policy,
    clock: &Clock<'_>,
    [one, amount]: [u32; 2],
) -> Charge {
    let (one, cost) = (packets.cost_of(one), second.cost_of(amount));
    let mut charged = 0;
    if packets.is_on() {
        if stages::ask_cell(debt(&cell.second, clock), clock.units(), cost, second).is_none() {
            return Charge::Refused;
        }
        let Some(level) = charge_level(&cell.packets, packets, clock, one) else { return Charge::Refused };
        charged = level;
    }
    if charge_level(&cell.second, second, clock, cost).is_some() {
        return Charge::Paid;
    }
    if packets.is_on() {
        undo(&cell.packets, charged, one);
    }
    Charge::Refused
}

/// Charges a level if the cost fits. Returns the charged level.
#[inline(always)]
fn charge_level(level: &Word, meter: &Meter, clock: &Clock<'_>, cost: Units) -> Option<u64> {
    let (now, most, seen) = (clock.units(), clock.largest_debt(), level.load());
    let next = stages::ask_cell(stages::level_debt(seen, now, most), now, cost, meter)?;
    // Most packets need only this, without a call.
    if level.compare_exchange(seen, next).is_ok() {
        return Some(next);
    }
    charged(charge_contended(level, meter, now, most, cost))
}

/// Charges a level that other CPUs charge too, or returns [`REFUSED`].
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn charge_contended(level: *const Word, meter: *const Meter, now: Units, most: Units, cost: Units) -> u64 {
    let (Some(level), Some(meter)) = (given(level), given(meter)) else { return REFUSED };
    let next = |seen| stages::ask_cell(stages::level_debt(seen, now, most), now, cost, meter);
    exchange::charge::<TRIES>(level, Addition::within(most, cost), next).unwrap_or(REFUSED)
}

/// Returns the debt of a level.
#[inline(always)]
pub fn debt(level: &Word, clock: &Clock<'_>) -> Units {
    stages::level_debt(level.load(), clock.units(), clock.largest_debt())
}
