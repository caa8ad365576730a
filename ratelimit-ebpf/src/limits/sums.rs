//! Sums of the two stages, checked [`apart`](crate::bpf::verifier).

use ratelimit_common::{
    limits::policy::Meter,
    meters::{
        gcra::{Answer, Units},
        stages, state,
    },
};

use crate::bpf::verifier::given;

/// More than anything owes. States have no such value: any may come when they go around.
pub const REFUSED: Units = Units::MAX;

/// See [`stages::charge_cell`]; `most` is the [largest debt](stages::largest_debt).
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
#[must_use]
pub fn charged_cell(level: u64, now: Units, most: Units, cost: Units, meter: *const Meter) -> u64 {
    let Some(meter) = given(meter) else { return level };
    stages::charge_cell(stages::level_debt(level, now, most), now, cost, meter)
}

/// What the own bucket owes after it was asked, as in [`stages::ask_own`]; [`REFUSED`] if it refuses.
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

/// What a level that has no room owes when it is charged; [`REFUSED`] where it has, or is about to stop.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
#[must_use]
pub fn charged_further(level: u64, now: Units, most: Units, cost: Units, meter: *const Meter) -> Units {
    let Some(meter) = given(meter) else { return REFUSED };
    let debt = stages::level_debt(level, now, most);
    let is_plain = debt != 0 && debt >= meter.front && debt + cost <= meter.ceiling;
    if is_plain { debt + cost } else { REFUSED }
}

/// See [`stages::wait`].
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
#[must_use]
pub fn wait_of_stages(level_debt: Units, own_debt: Units, cost: Units, meter: *const Meter) -> Units {
    let Some(meter) = given(meter) else { return 0 };
    stages::wait(level_debt, own_debt, cost, meter)
}
