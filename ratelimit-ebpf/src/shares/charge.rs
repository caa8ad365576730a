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

/// One limit with costs that a lease multiplies.
struct Multiplied<'a> {
    word: &'a Word,
    meter: &'a Meter,
    cost: Units,
    /// The largest debt that packets can have made under this multiplier.
    ceiling: Units,
}

impl<'a> Multiplied<'a> {
    #[inline(always)]
    fn new(word: &'a Word, meter: &'a Meter, cost: Units, multiplier: u64) -> Self {
        let (cost, largest) = (lease::multiplied(cost, multiplier), lease::multiplied(meter.ceiling, multiplier));
        Self { word, meter, cost, ceiling: if largest > meter.burst { largest } else { meter.burst } }
    }

    /// Asks for the cost. A larger debt than the ceiling is cut.
    #[inline(always)]
    fn ask(&self, seen: u64, now: Units) -> Answer {
        gcra::ask_owing(state::debt(seen, now), now, self.cost, self.meter.burst, self.ceiling)
    }

    /// Returns whether the limit has room. If not, [`Self::charge`] cuts its debt.
    #[inline(always)]
    fn has_room(&self, now: Units) -> bool {
        !matches!(self.ask(self.word.load(), now), Answer::Refuse)
    }

    #[inline(always)]
    fn charge(&self, now: Units) -> bool {
        if !self.meter.is_on() {
            return true;
        }
        let mut is_admitted = false;
        let is_written = exchange::<TRIES>(self.word, |seen| {
            let answer = self.ask(seen, now);
            is_admitted = matches!(answer, Answer::Admit(_));
            match answer {
                Answer::Admit(next) | Answer::Cap(next) => Some(next),
                Answer::Refuse => None,
            }
        });
        is_written && is_admitted
    }
}

/// Charges both limits. If the second has no room, neither is charged, unless another CPU was faster.
#[inline(always)]
pub(super) fn pay(lease: &Lease, policy: &Policy, [one, amount]: [Units; 2], now: Units) -> bool {
    let (Policy { packets, second, .. }, multiplier) = (policy, lease.multiplier.load());
    let also = Multiplied::new(&lease.second, second, amount, multiplier);
    if packets.is_on() {
        let is_open = !second.is_on() || also.has_room(now);
        if !is_open || !Multiplied::new(&lease.packets, packets, one, multiplier).charge(now) {
            return false;
        }
    }
    also.charge(now)
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
