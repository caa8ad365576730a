//! What a soft limit lets pass above itself: hundredths of it, by a bucket of their own.

use ratelimit_common::{bucket::Resolution, gcra, reason::Reason};

use crate::{
    algorithm,
    apart::given,
    charge::{Charge, charge_apart},
    clock::Clock,
    entry, log,
    maps::{CONTROL, POLICIES},
    settings,
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
        let Ok(log) = entry::log(&key, control, visit.tick) else { return false };
        return log::ask(log, allowance, clock.now()) == Charge::Paid;
    }
    let Ok(bucket) = entry::bucket(&key, gcra::units(clock.now()), Resolution::NONE, control, visit.tick) else {
        return false;
    };
    let reason = match allowance.is_bucket() {
        true => bucket.charge(allowance, &clock, amounts, charge_apart),
        false => windows::ask_apart(bucket, allowance, clock.now(), amounts),
    };
    reason == Reason::WithinLimit
}
