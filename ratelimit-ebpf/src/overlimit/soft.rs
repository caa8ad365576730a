//! The share that a soft limit still passes: hundredths of the limit, by one more entry of the map of buckets, whose
//! key names source and policy.

use ratelimit_common::{
    buckets::bucket::Resolution,
    maps::control::Control,
    meters::{
        gcra::{self, Units},
        meter::Meter,
        state,
    },
    reason::Reason,
};

use crate::{
    bpf::{atomic::Word, clock::Clock, settings, verifier::given},
    buckets::create,
    maps::{buckets, rules},
    meters::{gcra::charge_globally, sliding_log, token_bucket, window},
    packet::context::Context,
};

/// Returns whether a packet that its limit has refused still passes, and charges it. Goes by the precise clock, like
/// parents.
#[inline(always)]
#[must_use]
pub fn admits(context: &Context, control: &Control) -> bool {
    ask_allowance(context, control)
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn ask_allowance(context: *const Context, control: *const Control) -> bool {
    if !settings::is_on(&settings::SOFT_ON) {
        return false;
    }
    let (Some(context), Some(control)) = (given(context), given(control)) else { return false };
    let Some(policy) = context.policy() else { return false };
    let Some(allowance) = rules::policy(policy.allowance) else { return false };
    let key = context.source.allowance(policy.allowance);
    let (clock, amounts) = (Clock::read(control), context.amounts(allowance));
    if sliding_log::is_kept_by(allowance) {
        let Ok(log) = create::sliding_log(&key, control, context.tick) else { return false };
        return sliding_log::ask(log, allowance, clock.now()) == Reason::WithinLimit;
    }
    let Ok(bucket) = create::bucket(&key, gcra::units(clock.now()), Resolution::NONE, control, context.tick) else {
        return false;
    };
    match allowance.is_bucket() {
        true => token_bucket::charge_with(bucket, allowance, &clock, amounts, charge_globally).is_ok(),
        false => window::ask_globally(bucket, allowance, clock.now(), amounts) == Reason::WithinLimit,
    }
}

/// Returns the time for which such a packet is refused above its limit as well; 0 if it is not, or if nothing is known.
#[inline(always)]
#[must_use]
pub fn wait(context: &Context) -> Units {
    wait_of_allowance(context)
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn wait_of_allowance(context: *const Context) -> Units {
    if !settings::is_on(&settings::SOFT_ON) {
        return 0;
    }
    let Some(context) = given(context) else { return 0 };
    let Some(policy) = context.policy() else { return 0 };
    let Some(allowance) = rules::policy(policy.allowance) else { return 0 };
    let key = context.source.allowance(policy.allowance);
    let (now, amounts) = (context.now, context.amounts_refused(allowance));
    if sliding_log::is_kept_by(allowance) {
        return gcra::units(sliding_log::wait(&key, allowance, now));
    }
    let Some(bucket) = buckets::find(&key) else { return 0 };
    if !allowance.is_bucket() {
        return gcra::units(window::wait(bucket, allowance, now, amounts));
    }
    let first = left(&bucket.packets, &allowance.packets, now, amounts[0]);
    first.max(left(&bucket.second, &allowance.second, now, amounts[1]))
}

/// Returns the time for which one token bucket still refuses.
#[inline(always)]
fn left(word: &Word, meter: &Meter, now: u64, amount: u32) -> Units {
    let owes = state::debt(word.load(), gcra::units(now));
    let above = (owes + meter.cost_of(amount)).saturating_sub(meter.burst);
    // A packet that costs more than the burst fits when nothing is owed.
    if !meter.is_on() { 0 } else { above.min(owes) }
}
