//! What a soft limit lets pass above itself: hundredths of it, by a bucket of their own.

use ratelimit_common::{
    buckets::bucket::Resolution,
    limits::policy::Meter,
    meters::{
        gcra::{self, Units},
        state,
    },
    reason::Reason,
};

use crate::{
    bpf::{atomic::Word, clock::Clock, settings, verifier::given},
    buckets::create,
    limits::windowed,
    maps::all::{CONTROL, POLICIES},
    meters::{
        charge::{Charge, charge_apart},
        sliding_log, window,
    },
    packet::context::Visit,
    rules::cache,
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
    if windowed::keeps_logs(allowance) {
        let Ok(log) = create::log(&key, control, visit.tick) else { return false };
        return sliding_log::ask(log, allowance, clock.now()) == Charge::Paid;
    }
    let Ok(bucket) = create::bucket(&key, gcra::units(clock.now()), Resolution::NONE, control, visit.tick) else {
        return false;
    };
    let reason = match allowance.is_bucket() {
        true => bucket.charge(allowance, &clock, amounts, charge_apart),
        false => window::ask_apart(bucket, allowance, clock.now(), amounts),
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
    if windowed::keeps_logs(allowance) {
        return gcra::units(sliding_log::wait(&key, allowance, now));
    }
    let Some(bucket) = cache::find(&key) else { return 0 };
    if !allowance.is_bucket() {
        return gcra::units(window::wait(bucket, allowance, now, amounts));
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
