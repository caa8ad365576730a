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
    limits::stages::two_stages::{REFUSED, charged_cell, charged_further, charged_own, time_of_own},
    maps::{
        exchange::{self, Addition, Charge, FEW_TRIES, exchange, undo},
        this_cpu::payment::Payment,
    },
    meters::gcra::{addition, cap},
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
            cap(own, meter, &Clock::of(control, payment.now.load()), meter.most_of_rest());
            true
        }
    }
}

/// See [`Pair::pay`](crate::limits::stages::pair::Pair::pay).
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
pub(crate) fn pay_pair(level: *const Word, own: *const Word, meter: *const Meter, payment: *const Payment) -> Charge {
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
        (debt != REFUSED).then_some(now.wrapping_add(debt))
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

/// See [`Pair::pay_rest`](crate::limits::stages::pair::Pair::pay_rest).
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
pub(crate) fn pay_own(level: *const Word, own: *const Word, meter: *const Meter, payment: *const Payment) -> Charge {
    let (Some(level), Some(own), Some(meter)) = (given(level), given(own), given(meter)) else {
        return Charge::Refused;
    };
    let Some(payment) = given(payment) else { return Charge::Refused };
    let (now, most, cost) = (gcra::units(payment.now.load()), payment.largest_debt.load(), payment.cost.load());
    let debt = stages::level_debt(level.load(), now, most);
    if debt == 0 || debt < meter.cell_share || charged_own(own.load(), debt, now, cost, meter) == REFUSED {
        return Charge::Refused;
    }
    let mut charged = 0;
    let is_charged = exchange::<QUICK_TRIES>(level, |seen| {
        charged = charged_further(seen, now, most, cost, meter);
        (charged != REFUSED).then_some(now.wrapping_add(charged))
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
        (debt != REFUSED).then_some(state)
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
