//! One limit of a source as its cell and its own bucket share it.

use ratelimit_common::{
    gcra::{Answer, Units},
    policy::Meter,
    stages, state,
};

use crate::{
    atomic::Word,
    charge::{self, Charge},
    clock::Clock,
    levels,
    sums::{REFUSED, charged_cell, charged_further, charged_own, wait_of_stages},
};

/// One limit's two stages, and a packet.
pub struct Pair<'a> {
    level: &'a Word,
    own: &'a Word,
    meter: &'a Meter,
    cost: Units,
    /// What each has paid.
    paid_level: Units,
    paid_own: Units,
}

impl<'a> Pair<'a> {
    /// A packet that counts as so much.
    #[inline(always)]
    #[must_use]
    pub fn new(level: &'a Word, own: &'a Word, meter: &'a Meter, amount: u32) -> Self {
        Self { level, own, meter, cost: meter.cost_of(amount), paid_level: 0, paid_own: 0 }
    }

    /// Gives back what was paid.
    #[inline(always)]
    pub fn refund(&self, clock: &Clock<'_>) {
        charge::refund_level(self.level, clock.units(), self.paid_level);
        charge::refund(self.own, clock.units(), self.paid_own);
    }
}

/// How long a packet of this amount is refused still; 0 if it is not. See [`stages::wait`].
#[inline(always)]
#[must_use]
pub fn wait(level: &Word, own: &Word, meter: &Meter, amount: u32, clock: &Clock<'_>) -> Units {
    if !meter.is_on() {
        return 0;
    }
    wait_of_stages(levels::debt(level, clock), state::debt(own.load(), clock.units()), meter.cost_of(amount), meter)
}

/// Whether the own bucket refuses. Nothing is charged.
#[inline(never)]
pub fn refuses(pair: &Pair<'_>, clock: &Clock<'_>) -> bool {
    let now = clock.units();
    match stages::ask_own(pair.own.load(), levels::debt(pair.level, clock), now, pair.cost, pair.meter) {
        Answer::Admit(_) => false,
        Answer::Refuse => true,
        Answer::Cap(_) => {
            charge::cap(pair.own, pair.meter, clock, pair.meter.rest());
            true
        }
    }
}

/// Charges the cell first, so that its room is nobody else's, and then the own bucket for the rest. A function of its own, for the
/// verifier to walk through its tries once.
#[inline(never)]
pub fn pay(pair: &mut Pair<'_>, clock: &Clock<'_>) -> Charge {
    let (now, most, cost, meter) = (clock.units(), clock.largest_debt(), pair.cost, pair.meter);
    let mut level = 0;
    let outcome = charge::exchange::<{ charge::FEW_TRIES }>(pair.level, |seen| {
        level = seen;
        Some(charged_cell(seen, now, most, cost, meter))
    });
    if outcome != Charge::Paid {
        return outcome;
    }
    let before = stages::level_debt(level, now, most);
    pair.paid_level = charged_cell(level, now, most, cost, meter).wrapping_sub(now).wrapping_sub(before);
    pair.paid_own = stages::share(before, cost, meter);
    let outcome = charge::exchange::<{ charge::FEW_TRIES }>(pair.own, |seen| {
        let debt = charged_own(seen, before, now, cost, meter);
        (debt != REFUSED).then_some(now.wrapping_add(debt))
    });
    if outcome != Charge::Paid {
        charge::refund_level(pair.level, now, pair.paid_level);
    }
    outcome
}

/// Tries before the other way is taken.
const QUICK_TRIES: u32 = 2;

/// The same in fewer steps where the cell has no room and the own bucket pays all, as for whoever stays at its limit. Refuses too where that
/// is not so.
#[inline(never)]
#[must_use]
pub fn pay_rest(pair: &Pair<'_>, clock: &Clock<'_>) -> Charge {
    let (now, most, cost, meter) = (clock.units(), clock.largest_debt(), pair.cost, pair.meter);
    let debt = levels::debt(pair.level, clock);
    if debt == 0 || debt < meter.front || charged_own(pair.own.load(), debt, now, cost, meter) == REFUSED {
        return Charge::Refused;
    }
    // Within the exchange, since many CPUs that add to what they have all seen would put the level where it reads as none.
    let outcome = charge::exchange::<QUICK_TRIES>(pair.level, |seen| {
        let debt = charged_further(seen, now, most, cost, meter);
        (debt != REFUSED).then_some(now.wrapping_add(debt))
    });
    if outcome != Charge::Paid {
        return outcome;
    }
    let outcome = charge::exchange::<QUICK_TRIES>(pair.own, |seen| {
        let debt = charged_own(seen, debt, now, cost, meter);
        (debt != REFUSED).then_some(now.wrapping_add(debt))
    });
    if outcome != Charge::Paid {
        charge::refund_level(pair.level, now, cost);
    }
    outcome
}
