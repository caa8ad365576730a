//! The first stage: a cell's levels of packets, and of bytes or second limits.

use ratelimit_common::{
    limits::policy::Policy,
    meters::{
        gcra::Units,
        meter::Meter,
        stages::{self, Part},
    },
};

use crate::{
    bpf::{atomic::Word, clock::Clock, settings, verifier::given},
    maps::{
        exchange::{self, Addition, Charge, TRIES, undo},
        levels::Levels,
        this_cpu::{self, OWN},
    },
    meters::gcra::{REFUSED, charged},
    packet::context::Context,
};

/// Charges the levels with a packet that fits the cell's share of the burst.
#[inline(always)]
pub fn ask(levels: &Levels, policy: &Policy, clock: &Clock<'_>, context: &Context) -> Charge {
    ask_for(levels, policy, clock, context, Part::Share)
}

/// Charges the levels with a packet that fits the whole burst, for a source that has no bucket and can get none.
#[inline(always)]
pub fn ask_whole(levels: &Levels, policy: &Policy, clock: &Clock<'_>, context: &Context) -> Charge {
    ask_for(levels, policy, clock, context, Part::Whole)
}

#[inline(always)]
fn ask_for(levels: &Levels, policy: &Policy, clock: &Clock<'_>, context: &Context, part: Part) -> Charge {
    if policy.second.is_on() {
        return ask_second(levels, policy, clock, context.amounts(policy), part);
    }
    let cost = policy.packets.cost_of(context.cost());
    match charge_level(&levels.packets, part.of(&policy.packets), clock, cost) {
        Some(charged) => {
            record(0, cost, charged);
            Charge::Paid
        }
        None => Charge::Refused,
    }
}

/// Charges a second limit, and the one of packets if it is on. Both are checked before either is charged.
#[inline(never)]
fn ask_second(
    levels: &Levels,
    Policy { packets, second, .. }: &Policy,
    clock: &Clock<'_>,
    [one, amount]: [u32; 2],
    part: Part,
) -> Charge {
    let (one, cost) = (packets.cost_of(one), second.cost_of(amount));
    let mut charged = 0;
    if packets.is_on() {
        if stages::ask_cell(debt(&levels.second, clock), clock.units(), cost, part.of(second)).is_none() {
            return Charge::Refused;
        }
        let Some(level) = charge_level(&levels.packets, part.of(packets), clock, one) else {
            return Charge::Refused;
        };
        charged = level;
        record(0, one, charged);
    }
    if let Some(level) = charge_level(&levels.second, part.of(second), clock, cost) {
        record(1, cost, level);
        return Charge::Paid;
    }
    if packets.is_on() {
        undo(&levels.packets, charged, one);
    }
    Charge::Refused
}

/// Charges a level if the cost fits this part of the burst. Returns the charged level.
#[inline(always)]
pub fn charge_level(level: &Word, part: Units, clock: &Clock<'_>, cost: Units) -> Option<u64> {
    let (now, most, seen) = (clock.units(), clock.largest_debt(), level.load());
    let next = stages::ask_cell(stages::level_debt(seen, now, most), now, cost, part)?;
    // Most packets need only this, without a call.
    if level.compare_exchange(seen, next).is_ok() {
        return Some(next);
    }
    charged(charge_contended(level, part, now, most, cost))
}

/// Charges a level that other CPUs charge too, or returns [`REFUSED`].
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn charge_contended(level: *const Word, part: Units, now: Units, most: Units, cost: Units) -> u64 {
    let Some(level) = given(level) else { return REFUSED };
    let next = |seen| stages::ask_cell(stages::level_debt(seen, now, most), now, cost, part);
    exchange::charge::<TRIES>(level, Addition::within(most, cost), next).unwrap_or(REFUSED)
}

/// Records the charge of a level of the source's own limit, so that it can be given back if a parent refuses.
#[inline(always)]
fn record(limit: usize, cost: Units, charged: u64) {
    if settings::is_on(&settings::PARENTS_ON)
        && let Some(payment) = this_cpu::payments(OWN).and_then(|payments| payments.get(limit))
    {
        payment.record_level(cost, charged);
    }
}

/// Returns whether a packet of these amounts fits this part of the burst in the levels.
#[inline(always)]
#[must_use]
pub fn have_room(levels: &Levels, policy: &Policy, clock: &Clock<'_>, [one, amount]: [u32; 2], part: Part) -> bool {
    let Policy { packets, second, .. } = policy;
    has_room(&levels.packets, packets, clock, packets.cost_of(one), part)
        && has_room(&levels.second, second, clock, second.cost_of(amount), part)
}

#[inline(always)]
fn has_room(level: &Word, meter: &Meter, clock: &Clock<'_>, cost: Units, part: Part) -> bool {
    !meter.is_on() || stages::ask_cell(debt(level, clock), clock.units(), cost, part.of(meter)).is_some()
}

/// Returns the debt of a level.
#[inline(always)]
pub fn debt(level: &Word, clock: &Clock<'_>) -> Units {
    stages::level_debt(level.load(), clock.units(), clock.largest_debt())
}
