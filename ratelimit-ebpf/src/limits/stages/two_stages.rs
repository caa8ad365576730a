//! Arithmetic of the two stages, in [global functions](crate::bpf::verifier).

use ratelimit_common::meters::{
    gcra::{self, Answer, Units},
    meter::Meter,
    stages, state,
};

use crate::{
    bpf::{atomic::Word, clock::Clock, verifier::given},
    maps::{control, this_cpu::payment::Payment},
};

/// Result of a refusal: more than any debt. A state has no such value, since it takes all values when time wraps.
pub const REFUSED: Units = Units::MAX;

/// Returns the charged level. See [`stages::charge_cell`]; `most` is the [largest debt](stages::largest_debt).
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
#[must_use]
pub fn charged_cell(level: u64, now: Units, most: Units, cost: Units, meter: *const Meter) -> u64 {
    let Some(meter) = given(meter) else { return level };
    stages::charge_cell(stages::level_debt(level, now, most), now, cost, meter)
}

/// Returns the debt of the own bucket after [`stages::ask_own`], or [`REFUSED`].
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
#[must_use]
pub fn charged_own(own: u64, level_debt: Units, now: Units, cost: Units, meter: *const Meter) -> Units {
    let Some(meter) = given(meter) else { return REFUSED };
    match stages::ask_own(own, level_debt, now, cost, meter) {
        Answer::Admit(next) => state::debt(next, now),
        Answer::Refuse | Answer::Cap(_) => REFUSED,
    }
}

/// Returns the debt of a level without room after a charge, or [`REFUSED`] if it has room or is about to stop.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
#[must_use]
pub fn charged_further(level: u64, now: Units, most: Units, cost: Units, meter: *const Meter) -> Units {
    let Some(meter) = given(meter) else { return REFUSED };
    let debt = stages::level_debt(level, now, most);
    let is_plain = debt != 0 && debt >= meter.cell_share && debt + cost <= meter.ceiling;
    if is_plain { debt + cost } else { REFUSED }
}

/// Returns the time for which both stages still refuse. See [`stages::wait`].
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
#[must_use]
pub fn wait_of_stages(level_debt: Units, own_debt: Units, cost: Units, meter: *const Meter) -> Units {
    let Some(meter) = given(meter) else { return 0 };
    stages::wait(level_debt, own_debt, cost, meter)
}

/// Returns the time at which the own bucket is charged.
///
/// If the level before the packet is higher than the own bucket accounts for, the cell may have admitted packets of this
/// source that read a later time. A charge of the earlier time would drain too soon. So the clock is read again.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
#[must_use]
pub fn time_of_own(own: *const Word, before: Units, meter: *const Meter, payment: *const Payment) -> Units {
    let (Some(own), Some(meter)) = (given(own), given(meter)) else { return 0 };
    let Some(payment) = given(payment) else { return 0 };
    let now = gcra::units(payment.now.load());
    if before.saturating_sub(meter.cell_share) <= state::debt(own.load(), now) {
        return now;
    }
    let Some(control) = control::get() else { return now };
    if payment.is_coarse.load() != 0 { Clock::coarse(control).units() } else { Clock::read(control).units() }
}
