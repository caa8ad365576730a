//! The first stage: a cell's levels of packets, and of bytes or second limits.

use ratelimit_common::{
    limits::policy::Policy,
    meters::{gcra::Units, meter::Meter, stages},
};

use crate::{
    bpf::{atomic::Word, clock::Clock},
    maps::{
        exchange::{Charge, TRIES, exchange},
        levels::Levels,
    },
    meters::gcra,
    packet::context::Context,
};

/// Charges the levels with a packet that fits the cell's share of the burst.
#[inline(always)]
pub fn ask(levels: &Levels, policy: &Policy, clock: &Clock<'_>, context: &Context) -> Charge {
    if policy.second.is_on() {
        ask_second(levels, policy, clock, context.amounts(policy))
    } else {
        charge_level(&levels.packets, &policy.packets, clock, policy.packets.cost_of(context.cost()))
    }
}

/// Charges a second limit, and the one of packets if it is on. Both are checked before either is charged.
#[inline(never)]
fn ask_second(
    levels: &Levels,
    Policy { packets, second, .. }: &Policy,
    clock: &Clock<'_>,
    [one, amount]: [u32; 2],
) -> Charge {
    let (one, cost) = (packets.cost_of(one), second.cost_of(amount));
    if packets.is_on() {
        if stages::ask_cell(debt(&levels.second, clock), clock.units(), cost, second).is_none() {
            return Charge::Refused;
        }
        let outcome = charge_level(&levels.packets, packets, clock, one);
        if outcome != Charge::Paid {
            return outcome;
        }
    }
    let outcome = charge_level(&levels.second, second, clock, cost);
    if outcome != Charge::Paid && packets.is_on() {
        gcra::refund_level(&levels.packets, clock.units(), one);
    }
    outcome
}

/// Charges a level if the cost fits.
#[inline(always)]
pub fn charge_level(level: &Word, meter: &Meter, clock: &Clock<'_>, cost: Units) -> Charge {
    let (now, most) = (clock.units(), clock.largest_debt());
    exchange::<TRIES>(level, |seen| stages::ask_cell(stages::level_debt(seen, now, most), now, cost, meter))
}

/// Returns whether the cost fits a level.
#[inline(always)]
#[must_use]
pub fn has_room(level: &Word, meter: &Meter, clock: &Clock<'_>, cost: Units) -> bool {
    !meter.is_on() || stages::ask_cell(debt(level, clock), clock.units(), cost, meter).is_some()
}

/// Returns the debt of a level.
#[inline(always)]
pub fn debt(level: &Word, clock: &Clock<'_>) -> Units {
    stages::level_debt(level.load(), clock.units(), clock.largest_debt())
}
