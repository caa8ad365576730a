//! Charges both stages of a limit, in [global functions](crate::bpf::verifier).

use ratelimit_common::{
    maps::control::Control,
    meters::{
        gcra::{self, Answer, Units},
        meter::Meter,
        stages,
    },
};

use crate::{
    bpf::{atomic::Word, clock::Clock, verifier::given},
    limits::stages::two_stages::{REFUSED, charged_cell, charged_further, charged_own},
    maps::{
        exchange::{Charge, FEW_TRIES, exchange},
        payment::Payment,
    },
    meters::gcra::{cap, refund_level},
};

/// See [`Pair::refuses`](crate::limits::stages::pair::Pair::refuses).
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
pub(crate) fn rest_refuses(
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
            cap(own, meter, &Clock::of(control, payment.now.load()), meter.rest());
            true
        }
    }
}

/// See [`Pair::pay`](crate::limits::stages::pair::Pair::pay).
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
pub(crate) fn pay_pair(level: *const Word, own: *const Word, meter: *const Meter, payment: *const Payment) -> Charge {
    let (Some(level), Some(own), Some(meter)) = (given(level), given(own), given(meter)) else {
        return Charge::Contended;
    };
    let Some(payment) = given(payment) else { return Charge::Contended };
    let (now, most, cost) = (gcra::units(payment.now.load()), payment.largest_debt.load(), payment.cost.load());
    let mut found = 0;
    let outcome = exchange::<FEW_TRIES>(level, |seen| {
        found = seen;
        Some(charged_cell(seen, now, most, cost, meter))
    });
    if outcome != Charge::Paid {
        return outcome;
    }
    let before = stages::level_debt(found, now, most);
    payment.level.store(charged_cell(found, now, most, cost, meter).wrapping_sub(now).wrapping_sub(before));
    payment.own.store(stages::share(before, cost, meter));
    let outcome = exchange::<FEW_TRIES>(own, |seen| {
        let debt = charged_own(seen, before, now, cost, meter);
        (debt != REFUSED).then_some(now.wrapping_add(debt))
    });
    if outcome != Charge::Paid {
        refund_level(level, now, payment.level.load());
        // Nothing is left to give back.
        payment.charge(0, 0);
    }
    outcome
}

/// Number of tries before [`pay_pair`] takes over.
const QUICK_TRIES: u32 = 2;

/// See [`Pair::pay_rest`](crate::limits::stages::pair::Pair::pay_rest).
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
pub(crate) fn pay_own(level: *const Word, own: *const Word, meter: *const Meter, payment: *const Payment) -> Charge {
    let (Some(level), Some(own), Some(meter)) = (given(level), given(own), given(meter)) else {
        return Charge::Contended;
    };
    let Some(payment) = given(payment) else { return Charge::Contended };
    let (now, most, cost) = (gcra::units(payment.now.load()), payment.largest_debt.load(), payment.cost.load());
    let debt = stages::level_debt(level.load(), now, most);
    if debt == 0 || debt < meter.cell_share || charged_own(own.load(), debt, now, cost, meter) == REFUSED {
        return Charge::Refused;
    }
    // In one exchange: many CPUs that add to the level which they have all seen would put it where it reads as no debt.
    let outcome = exchange::<QUICK_TRIES>(level, |seen| {
        let debt = charged_further(seen, now, most, cost, meter);
        (debt != REFUSED).then_some(now.wrapping_add(debt))
    });
    if outcome != Charge::Paid {
        return outcome;
    }
    let outcome = exchange::<QUICK_TRIES>(own, |seen| {
        let debt = charged_own(seen, debt, now, cost, meter);
        (debt != REFUSED).then_some(now.wrapping_add(debt))
    });
    if outcome != Charge::Paid {
        refund_level(level, now, cost);
    }
    outcome
}
