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
    bpf::{
        atomic::Word,
        clock::Clock,
        verifier::{given, given_mut},
    },
    limits::two_stages::{REFUSED, charged_cell, charged_further, charged_own},
    maps::exchange::{self, Addition, Charge, FEW_TRIES, exchange, undo},
    meters::gcra::{addition, cap},
};

/// Cost of a packet, and the charges of each stage.
#[repr(C)]
pub struct Payment {
    /// Time of the packet in nanoseconds.
    now: u64,
    /// See [`Control::largest_debt`].
    largest_debt: Units,
    /// Cost of the packet.
    cost: Units,
    /// Charge of the cell's level.
    pub(crate) level: Units,
    /// Charge of the own bucket.
    pub(crate) own: Units,
    /// The charged level, and the charged state of the own bucket.
    pub(crate) charged: [u64; 2],
}

impl Payment {
    /// Creates the payment for a packet of this amount, of which nothing is charged yet.
    #[inline(always)]
    #[must_use]
    pub fn new(meter: &Meter, amount: u32, clock: &Clock<'_>) -> Self {
        let (now, largest_debt) = (clock.now(), clock.largest_debt());
        Self { now, largest_debt, cost: meter.cost_of(amount), level: 0, own: 0, charged: [0; 2] }
    }
}

/// See [`Pair::refuses`](crate::limits::pair::Pair::refuses).
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
    match stages::ask_own(own.load(), level_debt, gcra::units(payment.now), payment.cost, meter) {
        Answer::Admit(_) => false,
        Answer::Refuse => true,
        Answer::Cap(_) => {
            cap(own, meter, &Clock::of(control, payment.now), meter.most_of_rest());
            true
        }
    }
}

/// See [`Pair::pay`](crate::limits::pair::Pair::pay).
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
pub(crate) fn pay_pair(level: *const Word, own: *const Word, meter: *const Meter, payment: *mut Payment) -> Charge {
    let (Some(level), Some(own), Some(meter)) = (given(level), given(own), given(meter)) else {
        return Charge::Refused;
    };
    let Some(payment) = given_mut(payment) else { return Charge::Refused };
    let (now, most, cost) = (gcra::units(payment.now), payment.largest_debt, payment.cost);
    let mut before = 0;
    let charged = exchange::charge::<FEW_TRIES>(level, Addition::within(most, 0), |seen| {
        before = stages::level_debt(seen, now, most);
        Some(charged_cell(seen, now, most, cost, meter))
    });
    if let Some(charged) = charged {
        payment.level = charged.wrapping_sub(now).wrapping_sub(before);
        payment.charged[0] = charged;
    } else if before < stages::enough(meter) {
        return Charge::Refused;
    }
    payment.own = stages::share(before, cost, meter);
    if payment.own == 0 {
        return Charge::Paid;
    }
    let charged = exchange::charge::<FEW_TRIES>(own, addition(meter, payment.own), |seen| {
        let debt = charged_own(seen, before, now, cost, meter);
        (debt != REFUSED).then_some(now.wrapping_add(debt))
    });
    if let Some(charged) = charged {
        payment.charged[1] = charged;
        return Charge::Paid;
    }
    undo(level, payment.charged[0], payment.level);
    Charge::Refused
}

/// Number of tries before [`pay_pair`] takes over.
const QUICK_TRIES: u32 = 2;

/// See [`Pair::pay_rest`](crate::limits::pair::Pair::pay_rest).
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
pub(crate) fn pay_own(level: *const Word, own: *const Word, meter: *const Meter, payment: *const Payment) -> Charge {
    let (Some(level), Some(own), Some(meter)) = (given(level), given(own), given(meter)) else {
        return Charge::Refused;
    };
    let Some(payment) = given(payment) else { return Charge::Refused };
    let (now, most, cost) = (gcra::units(payment.now), payment.largest_debt, payment.cost);
    let debt = stages::level_debt(level.load(), now, most);
    if debt == 0 || debt < meter.cell_share || charged_own(own.load(), debt, now, cost, meter) == REFUSED {
        return Charge::Refused;
    }
    let mut charged = 0;
    // In one exchange: many CPUs that add to the level which they have all seen would put it where it reads as no debt.
    let is_charged = exchange::<QUICK_TRIES>(level, |seen| {
        let debt = charged_further(seen, now, most, cost, meter);
        charged = now.wrapping_add(debt);
        (debt != REFUSED).then_some(charged)
    });
    if !is_charged {
        return Charge::Refused;
    }
    let is_paid = exchange::<QUICK_TRIES>(own, |seen| {
        let debt = charged_own(seen, debt, now, cost, meter);
        (debt != REFUSED).then_some(now.wrapping_add(debt))
    });
    if is_paid {
        return Charge::Paid;
    }
    undo(level, charged, cost);
    Charge::Refused
}
