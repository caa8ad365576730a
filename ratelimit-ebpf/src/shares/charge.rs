//! Charges the states of a lease with multiplied costs.

use ratelimit_common::{
    fleet::lease,
    limits::policy::Policy,
    meters::{
        gcra::{self, Answer, Units},
        meter::Meter,
        state,
    },
};

use crate::{
    bpf::atomic::Word,
    maps::{
        exchange::{FEW_TRIES, exchange},
        leases::Lease,
    },
    packet::context::Context,
};

/// Number of tries of a charge. A packet that loses all is refused.
const TRIES: u32 = 4;

/// Returns the costs of a packet in both limits of its policy.
#[inline(always)]
pub(super) fn costs(context: &Context, policy: &Policy) -> [Units; 2] {
    let [one, amount] = context.amounts(policy);
    [policy.packets.cost_of(one), policy.second.cost_of(amount)]
}

#[inline(always)]
pub(super) fn largest([one, amount]: [Units; 2]) -> Units {
    if one > amount { one } else { amount }
}

/// Charges both limits. If the second has no room, neither is charged, unless another CPU was faster.
#[inline(always)]
pub(super) fn pay(lease: &Lease, policy: &Policy, [one, amount]: [Units; 2], now: Units) -> bool {
    let Policy { packets, second, .. } = policy;
    let is_open = !packets.is_on() || !second.is_on() || has_room(&lease.second, second, amount, lease, now);
    is_open && charge(&lease.packets, packets, one, lease, now) && charge(&lease.second, second, amount, lease, now)
}

/// Asks for a cost that the lease multiplies. A debt that packets cannot have made under this multiplier is cut.
#[inline(always)]
fn ask(seen: u64, meter: &Meter, cost: Units, lease: &Lease, now: Units) -> Answer {
    let multiplier = lease.multiplier.load();
    let (cost, largest) = (lease::multiplied(cost, multiplier), lease::multiplied(meter.ceiling, multiplier));
    let ceiling = if largest > meter.burst { largest } else { meter.burst };
    gcra::ask_owing(state::debt(seen, now), now, cost, meter.burst, ceiling)
}

/// Returns whether a limit has room. If not, [`charge`] cuts its debt.
#[inline(always)]
fn has_room(word: &Word, meter: &Meter, cost: Units, lease: &Lease, now: Units) -> bool {
    !matches!(ask(word.load(), meter, cost, lease, now), Answer::Refuse)
}

#[inline(always)]
fn charge(word: &Word, meter: &Meter, cost: Units, lease: &Lease, now: Units) -> bool {
    if !meter.is_on() {
        return true;
    }
    let mut is_admitted = false;
    let is_written = exchange::<TRIES>(word, |seen| {
        let answer = ask(seen, meter, cost, lease, now);
        is_admitted = matches!(answer, Answer::Admit(_));
        match answer {
            Answer::Admit(next) | Answer::Cap(next) => Some(next),
            Answer::Refuse => None,
        }
    });
    is_written && is_admitted
}

/// Gives the charges of both limits back.
#[inline(always)]
pub(super) fn give_back(lease: &Lease, policy: &Policy, [one, amount]: [Units; 2], now: Units) {
    give_back_one(&lease.packets, &policy.packets, one, lease, now);
    give_back_one(&lease.second, &policy.second, amount, lease, now);
}

/// Gives a charge back, as far as the debt has it. If another CPU writes at each try, the charge stays.
#[inline(always)]
fn give_back_one(word: &Word, meter: &Meter, cost: Units, lease: &Lease, now: Units) {
    if !meter.is_on() {
        return;
    }
    let cost = lease::multiplied(cost, lease.multiplier.load());
    let _ = exchange::<FEW_TRIES>(word, |seen| {
        let debt = state::debt(seen, now);
        (debt != 0).then_some(now.wrapping_add(debt.saturating_sub(cost)))
    });
}
