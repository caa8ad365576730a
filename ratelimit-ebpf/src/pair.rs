//! One limit of a source as its cell and its own bucket share it.

use ratelimit_common::{
    gcra::{self, Answer, Units},
    policy::Meter,
    stages, state,
};

use crate::{
    atomic::Word,
    charge::{self, Charge},
    clock::Clock,
    levels,
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

/// How long the packet is refused still. See [`stages::wait`].
#[inline(never)]
#[must_use]
pub fn wait(Pair { level, own, meter, cost, .. }: &Pair<'_>, clock: &Clock<'_>) -> Units {
    stages::wait(levels::debt(level, clock), state::debt(own.load(), clock.units()), *cost, meter)
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
    let (now, cost, meter) = (clock.units(), pair.cost, pair.meter);
    let mut level = 0;
    let outcome = charge::exchange::<{ charge::FEW_TRIES }>(pair.level, |seen| {
        level = seen;
        Some(charged_cell(seen, clock, cost, meter))
    });
    if outcome != Charge::Paid {
        return outcome;
    }
    let before = stages::level_debt(level, now, clock.largest_debt());
    pair.paid_level = charged_cell(level, clock, cost, meter).wrapping_sub(now).wrapping_sub(before);
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

/// [`stages::charge_cell`] as a function of its own, for the verifier to go on from it in one state.
#[inline(never)]
fn charged_cell(level: u64, clock: &Clock<'_>, cost: Units, meter: &Meter) -> u64 {
    let now = clock.units();
    stages::charge_cell(stages::level_debt(level, now, clock.largest_debt()), now, cost, meter)
}

/// More than anything owes. States have no such value: any may come when they go around.
const REFUSED: Units = Units::MAX;

/// What the own bucket owes afterwards, in the same way; [`REFUSED`] if it refuses.
#[inline(never)]
fn charged_own(own: u64, level_debt: Units, now: Units, cost: Units, meter: &Meter) -> Units {
    match stages::ask_own(own, level_debt, now, cost, meter) {
        Answer::Admit(next) => gcra::debt(next, now),
        Answer::Refuse | Answer::Cap(_) => REFUSED,
    }
}

/// Tries before the other way is taken.
const QUICK_TRIES: u32 = 2;

/// The same in fewer steps where the cell has no room and the own bucket pays all, as for whoever stays at its limit. Refuses too where that
/// is not so.
#[inline(never)]
#[must_use]
pub fn pay_rest(pair: &Pair<'_>, clock: &Clock<'_>) -> Charge {
    let (now, cost, meter) = (clock.units(), pair.cost, pair.meter);
    let debt = levels::debt(pair.level, clock);
    if debt == 0 || debt < meter.front || charged_own(pair.own.load(), debt, now, cost, meter) == REFUSED {
        return Charge::Refused;
    }
    // Within the exchange, since many CPUs that add to what they have all seen would put the level where it reads as none.
    let outcome = charge::exchange::<QUICK_TRIES>(pair.level, |seen| {
        let debt = charged_further(seen, clock, cost, meter);
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

/// What a level that has no room owes when it is charged; [`REFUSED`] where it has, or is about to stop.
#[inline(never)]
fn charged_further(level: u64, clock: &Clock<'_>, cost: Units, meter: &Meter) -> Units {
    let debt = stages::level_debt(level, clock.units(), clock.largest_debt());
    let is_plain = debt != 0 && debt >= meter.front && debt + cost <= meter.ceiling;
    if is_plain { debt + cost } else { REFUSED }
}
