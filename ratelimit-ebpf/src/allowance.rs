//! What a soft limit lets pass above itself: hundredths of it, by a bucket of their own.

use ratelimit_common::{
    bucket::Resolution,
    gcra::{self, Units},
    policy::Meter,
    reason::Reason,
    state,
};

use crate::{
    algorithm,
    apart::given,
    atomic::Word,
    charge::{Charge, charge_apart},
    clock::Clock,
    log,
    maps::{CONTROL, POLICIES},
    settings, tracking,
    visit::Visit,
    windows,
};

/// Whether a packet that its limit has refused passes all the same. By the precise clock, like parents.
#[inline(always)]
#[must_use]
pub fn admits(visit: &Visit) -> bool {
    ask_allowance(visit)
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn ask_allowance(visit: *const Visit) -> bool {
    if !settings::is_on(&settings::SOFT_ON) {
        return false;
    }
    let (Some(visit), Some(control)) = (given(visit), CONTROL.get(0)) else { return false };
    let Some(allowance) = visit.policy().and_then(|policy| POLICIES.get(policy.allowance)) else { return false };
    let key = visit.source.allowance(visit.policy().map_or(0, |policy| policy.allowance));
    let (clock, amounts) = (Clock::read(control), visit.amounts(allowance));
    if algorithm::keeps_logs(allowance) {
        let Some(log) = algorithm::log_of(&key, control, visit.tick) else { return false };
        return log::ask(log, allowance, clock.now()) == Charge::Paid;
    }
    let (state, tick) = (gcra::units(visit.tick), visit.tick);
    let Some(bucket) = algorithm::bucket_of(&key, state, Resolution::NONE, control, tick) else { return false };
    let reason = match allowance.is_bucket() {
        true => bucket.charge(allowance, &clock, amounts, charge_apart),
        false => windows::ask(bucket, allowance, clock.now(), amounts),
    };
    reason == Reason::WithinLimit
}

/// How long such a packet is refused above its limit as well; 0 if it is not, or nothing is known of that.
#[inline(always)]
#[must_use]
pub fn wait(visit: &Visit) -> Units {
    wait_of_allowance(visit)
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn wait_of_allowance(visit: *const Visit) -> Units {
    if !settings::is_on(&settings::SOFT_ON) {
        return 0;
    }
    let Some(visit) = given(visit) else { return 0 };
    let Some(allowance) = visit.policy().and_then(|policy| POLICIES.get(policy.allowance)) else { return 0 };
    let key = visit.source.allowance(visit.policy().map_or(0, |policy| policy.allowance));
    let (now, amounts) = (visit.now, visit.amounts_refused(allowance));
    if algorithm::keeps_logs(allowance) {
        return log::find(&key).map_or(0, |log| gcra::units(log::wait(log, allowance, now)));
    }
    let Some(bucket) = tracking::find(&key) else { return 0 };
    if !allowance.is_bucket() {
        return gcra::units(windows::wait(bucket, allowance, now, amounts));
    }
    let first = left(&bucket.packets, &allowance.packets, now, amounts[0]);
    first.max(left(&bucket.second, &allowance.second, now, amounts[1]))
}

/// The same of one limit by buckets.
#[inline(always)]
fn left(word: &Word, meter: &Meter, now: u64, amount: u32) -> Units {
    let owes = state::debt(word.load(), gcra::units(now));
    let above = (owes + meter.cost_of(amount)).saturating_sub(meter.capacity);
    // One that costs more than all fits when nothing is owed.
    if !meter.is_on() { 0 } else { above.min(owes) }
}
