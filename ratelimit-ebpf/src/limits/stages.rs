//! The two stages of a limit: the levels of a cell, and a bucket for the rest of the burst. Which limits a packet has
//! belongs in `source_limits`.
//!
//! The arithmetic is that of [`ratelimit_common::meters::stages`]. What both stages need is in [global
//! functions](crate::bpf::verifier).

use ratelimit_common::{
    limits::policy::Policy,
    maps::control::Control,
    meters::{
        gcra::{self, Answer, Units},
        meter::Meter,
        stages::{self, Part},
        state,
    },
};

use crate::{
    bpf::{atomic::Word, clock::Clock, settings, verifier::given},
    maps::{
        buckets::Bucket,
        cells::{self, Levels},
        control,
        exchange::{self, Addition, Charge, FEW_TRIES, TRIES, exchange, undo},
        this_cpu::{self, OWN, Payment},
    },
    meters::token_bucket::{REFUSED, addition, cap, charged},
    packet::context::Context,
};

/// Charges the levels with a packet that fits the cell's share of the burst, or the whole burst for a source that has no
/// bucket and can get none.
#[inline(always)]
pub fn charge_levels(levels: &Levels, policy: &Policy, clock: &Clock<'_>, context: &Context, part: Part) -> Charge {
    if policy.second.is_on() {
        return charge_second(levels, policy, clock, context.amounts(policy), part);
    }
    let cost = policy.packets.cost_of(context.cost());
    match charge_level(&levels.packets, part.of(&policy.packets), clock, cost) {
        Some(charged) => {
            record_level(0, cost, charged);
            Charge::Paid
        }
        None => Charge::Refused,
    }
}

/// Charges a second limit, and the one of packets if it is on. Both are checked before either is charged.
#[inline(never)]
fn charge_second(
    levels: &Levels,
    Policy { packets, second, .. }: &Policy,
    clock: &Clock<'_>,
    [one, amount]: [u32; 2],
    part: Part,
) -> Charge {
    let (one, cost) = (packets.cost_of(one), second.cost_of(amount));
    let mut charged = 0;
    if packets.is_on() {
        if stages::ask_cell(cells::debt(&levels.second, clock), clock.units(), cost, part.of(second)).is_none() {
            return Charge::Refused;
        }
        let Some(level) = charge_level(&levels.packets, part.of(packets), clock, one) else {
            return Charge::Refused;
        };
        charged = level;
        record_level(0, one, charged);
    }
    if let Some(level) = charge_level(&levels.second, part.of(second), clock, cost) {
        record_level(1, cost, level);
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
    !meter.is_on() || stages::ask_cell(cells::debt(level, clock), clock.units(), cost, part.of(meter)).is_some()
}

/// One limit in both stages: a level and a state of a bucket.
#[derive(Clone, Copy)]
pub struct Pair<'a> {
    level: &'a Word,
    own: &'a Word,
    meter: &'a Meter,
}

impl<'a> Pair<'a> {
    /// Creates the pair of a limit's level and state.
    #[inline(always)]
    #[must_use]
    pub fn new(level: &'a Word, own: &'a Word, meter: &'a Meter) -> Self {
        Self { level, own, meter }
    }

    /// Returns the time for which a packet of this amount is still refused; 0 if it is not. See [`stages::wait`].
    #[inline(always)]
    #[must_use]
    pub fn wait(&self, amount: u32, clock: &Clock<'_>) -> Units {
        let Self { level, own, meter } = *self;
        if !meter.is_on() {
            return 0;
        }
        let (level, own) = (cells::debt(level, clock), state::debt(own.load(), clock.units()));
        wait_of_stages(level, own, meter.cost_of(amount), meter)
    }

    /// Returns whether the own bucket refuses. Nothing is charged.
    #[inline(always)]
    #[must_use]
    pub fn refuses(&self, payment: &Payment, clock: &Clock<'_>) -> bool {
        rest_refuses(self.own, self.meter, clock.control(), cells::debt(self.level, clock), payment)
    }

    /// Charges the cell first, so that no other packet gets its room, and then the own bucket for the rest.
    #[inline(always)]
    #[must_use]
    pub fn pay(&self, payment: &Payment) -> Charge {
        pay_pair(self.level, self.own, self.meter, payment)
    }

    /// Charges both in fewer steps, where the cell has no room and the own bucket pays everything, as for a source that
    /// stays at its limit. Refuses where this does not hold.
    #[inline(always)]
    #[must_use]
    pub fn pay_rest(&self, payment: &Payment) -> Charge {
        pay_own(self.level, self.own, self.meter, payment)
    }

    /// Gives the charges back.
    #[inline(always)]
    pub fn refund(&self, payment: &Payment) {
        undo_payment(Some(self.level), Some(self.own), payment);
    }
}

/// See [`Pair::wait`].
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn wait_of_stages(level_debt: Units, own_debt: Units, cost: Units, meter: *const Meter) -> Units {
    let Some(meter) = given(meter) else { return 0 };
    stages::wait(level_debt, own_debt, cost, meter)
}

/// See [`Pair::refuses`].
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn rest_refuses(
    own: *const Word,
    meter: *const Meter,
    control: *const Control,
    level_debt: Units,
    payment: *const Payment,
) -> bool {
    let (Some(own), Some(meter)) = (given(own), given(meter)) else { return false };
    let (Some(control), Some(payment)) = (given(control), given(payment)) else { return false };
    match stages::ask_own(own.load(), level_debt, gcra::units(payment.now.load()), payment.cost.load(), meter) {
        Answer::Admit(_) => false,
        Answer::Refuse => true,
        Answer::Cap(_) => {
            cap(own, meter, &Clock::of(control, payment.now.load()), meter.most_of_rest());
            true
        }
    }
}

/// See [`Pair::pay`].
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn pay_pair(level: *const Word, own: *const Word, meter: *const Meter, payment: *const Payment) -> Charge {
    let (Some(level), Some(own), Some(meter)) = (given(level), given(own), given(meter)) else {
        return Charge::Refused;
    };
    let Some(payment) = given(payment) else { return Charge::Refused };
    let (now, most, cost) = (gcra::units(payment.now.load()), payment.largest_debt.load(), payment.cost.load());
    let mut before = 0;
    let charged = exchange::charge::<FEW_TRIES>(level, Addition::within(most, 0), |seen| {
        before = stages::level_debt(seen, now, most);
        Some(charged_cell(seen, now, most, cost, meter))
    });
    if let Some(charged) = charged {
        payment.record_level(charged.wrapping_sub(now).wrapping_sub(before), charged);
    } else if before < stages::enough(meter) {
        return Charge::Refused;
    }
    let share = stages::share(before, cost, meter);
    if share == 0 {
        return Charge::Paid;
    }
    let now = time_of_own(own, before, meter, payment);
    let charged = exchange::charge::<FEW_TRIES>(own, addition(meter, share), |seen| {
        let debt = charged_own(seen, before, now, cost, meter);
        (debt != NO_DEBT).then_some(now.wrapping_add(debt))
    });
    if let Some(charged) = charged {
        payment.record_own(share, charged);
        return Charge::Paid;
    }
    undo(level, payment.charged_level.load(), payment.level.load());
    // Nothing is left to give back.
    payment.clear();
    Charge::Refused
}

/// Number of tries before [`pay_pair`] takes over.
const QUICK_TRIES: u32 = 2;

/// See [`Pair::pay_rest`].
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn pay_own(level: *const Word, own: *const Word, meter: *const Meter, payment: *const Payment) -> Charge {
    let (Some(level), Some(own), Some(meter)) = (given(level), given(own), given(meter)) else {
        return Charge::Refused;
    };
    let Some(payment) = given(payment) else { return Charge::Refused };
    let (now, most, cost) = (gcra::units(payment.now.load()), payment.largest_debt.load(), payment.cost.load());
    let debt = stages::level_debt(level.load(), now, most);
    if debt == 0 || debt < meter.cell_share || charged_own(own.load(), debt, now, cost, meter) == NO_DEBT {
        return Charge::Refused;
    }
    let mut charged = 0;
    let is_charged = exchange::<QUICK_TRIES>(level, |seen| {
        charged = charged_further(seen, now, most, cost, meter);
        (charged != NO_DEBT).then_some(now.wrapping_add(charged))
    });
    if !is_charged {
        return Charge::Refused;
    }
    let (charged, before) = (now.wrapping_add(charged), charged.wrapping_sub(cost));
    let now = time_of_own(own, before, meter, payment);
    let mut state = 0;
    let is_paid = exchange::<QUICK_TRIES>(own, |seen| {
        let debt = charged_own(seen, before, now, cost, meter);
        state = now.wrapping_add(debt);
        (debt != NO_DEBT).then_some(state)
    });
    if is_paid {
        // The level was full, so each stage pays the whole cost.
        payment.record_level(cost, charged);
        payment.record_own(cost, state);
        return Charge::Paid;
    }
    undo(level, charged, cost);
    Charge::Refused
}

/// Result of a refusal where a debt is returned otherwise: more than any debt. A state has no such value, since it takes
/// all values when time wraps.
const NO_DEBT: Units = Units::MAX;

/// Returns the charged level. See [`stages::charge_cell`]; `most` is the [largest debt](stages::largest_debt).
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn charged_cell(level: u64, now: Units, most: Units, cost: Units, meter: *const Meter) -> u64 {
    let Some(meter) = given(meter) else { return level };
    stages::charge_cell(stages::level_debt(level, now, most), now, cost, meter)
}

/// Returns the debt of the own bucket after [`stages::ask_own`], or [`NO_DEBT`].
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn charged_own(own: u64, level_debt: Units, now: Units, cost: Units, meter: *const Meter) -> Units {
    let Some(meter) = given(meter) else { return NO_DEBT };
    match stages::ask_own(own, level_debt, now, cost, meter) {
        Answer::Admit(next) => state::debt(next, now),
        Answer::Refuse | Answer::Cap(_) => NO_DEBT,
    }
}

/// Returns the debt of a level without room after a charge, or [`NO_DEBT`] if it has room or is about to stop.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn charged_further(level: u64, now: Units, most: Units, cost: Units, meter: *const Meter) -> Units {
    let Some(meter) = given(meter) else { return NO_DEBT };
    let debt = stages::level_debt(level, now, most);
    let is_plain = debt != 0 && debt >= meter.cell_share && debt + cost <= meter.ceiling;
    if is_plain { debt + cost } else { NO_DEBT }
}

/// Returns the time at which the own bucket is charged.
///
/// If the level before the packet is higher than the own bucket accounts for, the cell may have admitted packets of this
/// source that read a later time. A charge of the earlier time would drain too soon. So the clock is read again.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn time_of_own(own: *const Word, before: Units, meter: *const Meter, payment: *const Payment) -> Units {
    let (Some(own), Some(meter)) = (given(own), given(meter)) else { return 0 };
    let Some(payment) = given(payment) else { return 0 };
    let now = gcra::units(payment.now.load());
    if before.saturating_sub(meter.cell_share) <= state::debt(own.load(), now) {
        return now;
    }
    let Some(control) = control::get() else { return now };
    if payment.is_coarse.load() != 0 { Clock::coarse(control).units() } else { Clock::read(control).units() }
}

/// Records the charge of a level of the source's own limit, so that it can be given back if a parent refuses.
#[inline(always)]
fn record_level(limit: usize, cost: Units, charged: u64) {
    if settings::is_on(&settings::PARENTS_ON)
        && let Some(payment) = this_cpu::payments(OWN).and_then(|payments| payments.get(limit))
    {
        payment.record_level(cost, charged);
    }
}

/// Records the states of a bucket that both limits of a policy have charged, without cells.
#[inline(always)]
pub fn record_states(place: u32, policy: &Policy, [one, amount]: [u32; 2], charged: [u64; 2]) {
    if let Some([first, also]) = this_cpu::payments(place) {
        let Policy { packets, second, .. } = policy;
        first.record_own(if packets.is_on() { packets.cost_of(one) } else { 0 }, charged[0]);
        also.record_own(if second.is_on() { second.cost_of(amount) } else { 0 }, charged[1]);
    }
}

/// Records that nothing is charged in a place.
#[inline(always)]
pub fn clear(place: u32) {
    if let Some([first, also]) = this_cpu::payments(place) {
        first.clear();
        also.clear();
    }
}

/// Gives the charges of both limits in a place back.
#[inline(always)]
pub fn give_back(place: u32, levels: Option<&Levels>, bucket: Option<&Bucket>) {
    let Some([first, also]) = this_cpu::payments(place) else { return };
    undo_payment(levels.map(|levels| &levels.packets), bucket.map(|bucket| &bucket.packets), first);
    undo_payment(levels.map(|levels| &levels.second), bucket.map(|bucket| &bucket.second), also);
}

/// Gives the charges of one limit back.
#[inline(always)]
fn undo_payment(level: Option<&Word>, own: Option<&Word>, payment: &Payment) {
    if let Some(level) = level {
        undo(level, payment.charged_level.load(), payment.level.load());
    }
    if let Some(own) = own {
        undo(own, payment.charged_own.load(), payment.own.load());
    }
}
