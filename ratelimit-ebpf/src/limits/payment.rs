//! Pays both stages of a limit, checked [`apart`](crate::bpf::verifier).

use ratelimit_common::{
    limits::policy::Meter,
    meters::{
        gcra::{Answer, Units},
        stages,
    },
};

use crate::{
    bpf::{
        atomic::Word,
        clock::Clock,
        verifier::{given, given_mut},
    },
    cells::level,
    limits::sums::{REFUSED, charged_cell, charged_further, charged_own},
    maps::all::CONTROL,
    meters::charge::{self, Charge},
};

/// What a packet costs, and what each stage has been paid.
#[repr(C)]
pub struct Payment {
    /// Nanoseconds.
    pub(crate) now: u64,
    pub(crate) cost: Units,
    pub(crate) level: Units,
    pub(crate) own: Units,
}

impl Payment {
    /// Nothing is paid yet of what a packet of this amount costs at `now`.
    #[inline(always)]
    #[must_use]
    pub fn new(meter: &Meter, amount: u32, now: u64) -> Self {
        Self { now, cost: meter.cost_of(amount), level: 0, own: 0 }
    }
}

/// See [`Pair::refuses`](crate::limits::pair::Pair::refuses).
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
pub(crate) fn pair_refuses(level: *const Word, own: *const Word, meter: *const Meter, now: u64, cost: Units) -> bool {
    let (Some(level), Some(own), Some(meter)) = (given(level), given(own), given(meter)) else { return false };
    let Some(control) = CONTROL.get(0) else { return false };
    let clock = Clock::of(control, now);
    match stages::ask_own(own.load(), level::debt(level, &clock), clock.units(), cost, meter) {
        Answer::Admit(_) => false,
        Answer::Refuse => true,
        Answer::Cap(_) => {
            charge::cap(own, meter, &clock, meter.rest());
            true
        }
    }
}

/// See [`Pair::pay`](crate::limits::pair::Pair::pay).
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
pub(crate) fn pay_pair(level: *const Word, own: *const Word, meter: *const Meter, payment: *mut Payment) -> Charge {
    let (Some(level), Some(own), Some(meter)) = (given(level), given(own), given(meter)) else {
        return Charge::Contended;
    };
    let (Some(payment), Some(control)) = (given_mut(payment), CONTROL.get(0)) else { return Charge::Contended };
    let clock = Clock::of(control, payment.now);
    let (now, most, cost) = (clock.units(), clock.largest_debt(), payment.cost);
    let mut found = 0;
    let outcome = charge::exchange::<{ charge::FEW_TRIES }>(level, |seen| {
        found = seen;
        Some(charged_cell(seen, now, most, cost, meter))
    });
    if outcome != Charge::Paid {
        return outcome;
    }
    let before = stages::level_debt(found, now, most);
    payment.level = charged_cell(found, now, most, cost, meter).wrapping_sub(now).wrapping_sub(before);
    payment.own = stages::share(before, cost, meter);
    let outcome = charge::exchange::<{ charge::FEW_TRIES }>(own, |seen| {
        let debt = charged_own(seen, before, now, cost, meter);
        (debt != REFUSED).then_some(now.wrapping_add(debt))
    });
    if outcome != Charge::Paid {
        charge::refund_level(level, now, payment.level);
    }
    outcome
}

/// Tries before the other way is taken.
const QUICK_TRIES: u32 = 2;

/// See [`Pair::pay_rest`](crate::limits::pair::Pair::pay_rest).
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
pub(crate) fn pay_own(level: *const Word, own: *const Word, meter: *const Meter, now: u64, cost: Units) -> Charge {
    let (Some(level), Some(own), Some(meter)) = (given(level), given(own), given(meter)) else {
        return Charge::Contended;
    };
    let Some(control) = CONTROL.get(0) else { return Charge::Contended };
    let clock = Clock::of(control, now);
    let (now, most, debt) = (clock.units(), clock.largest_debt(), level::debt(level, &clock));
    if debt == 0 || debt < meter.front || charged_own(own.load(), debt, now, cost, meter) == REFUSED {
        return Charge::Refused;
    }
    // Within the exchange, since many CPUs that add to what they have all seen would put the level where it reads as none.
    let outcome = charge::exchange::<QUICK_TRIES>(level, |seen| {
        let debt = charged_further(seen, now, most, cost, meter);
        (debt != REFUSED).then_some(now.wrapping_add(debt))
    });
    if outcome != Charge::Paid {
        return outcome;
    }
    let outcome = charge::exchange::<QUICK_TRIES>(own, |seen| {
        let debt = charged_own(seen, debt, now, cost, meter);
        (debt != REFUSED).then_some(now.wrapping_add(debt))
    });
    if outcome != Charge::Paid {
        charge::refund_level(level, now, cost);
    }
    outcome
}
