//! The share that a soft limit still passes: hundredths of the limit, by a further limit whose key names source and
//! policy.

use ratelimit_common::{
    buckets::bucket::Resolution,
    limits::policy::Policy,
    maps::control::Control,
    meters::gcra::{self, Units},
    reason::Reason,
};

use crate::{
    bpf::{clock::Clock, settings, verifier::given},
    buckets::create,
    limits::further::{
        charge::charge,
        check::{check, wait as wait_of},
        limit::ALLOWANCE,
    },
    maps::{buckets, rules},
    meters::{sliding_log, window},
    packet::context::Context,
};

/// Returns whether a packet that its limit has refused still passes, and charges it. Goes by the precise clock.
#[inline(always)]
#[must_use]
pub fn admits(context: &Context, control: &Control, policy: &Policy) -> bool {
    if policy.is_bucket() {
        let now = Clock::read(control).now();
        return check(context, control, ALLOWANCE, now) == Reason::WithinLimit
            && charge(context, control, ALLOWANCE, now) == Reason::WithinLimit;
    }
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
    let now = Clock::read(control).now();
    let (key, tick) = (context.source.allowance(policy.allowance), context.tick);
    if sliding_log::is_kept_by(allowance) {
        let Ok(log) = create::sliding_log(&key, allowance, control, tick) else { return false };
        return sliding_log::ask(log, allowance, now) == Reason::WithinLimit;
    }
    let state = gcra::units(now);
    let Ok(bucket) = create::bucket(&key, allowance, state, Resolution::NONE, control, tick) else { return false };
    window::ask_globally(bucket, allowance, now, context.amounts(allowance)) == Reason::WithinLimit
}

/// Returns the time for which such a packet is refused above its limit as well; 0 if it is not, or if nothing is known.
#[inline(always)]
#[must_use]
pub fn wait(context: &Context, control: &Control, policy: &Policy) -> Units {
    if policy.is_bucket() {
        return wait_of(context, control, ALLOWANCE, context.now).0;
    }
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
    let now = context.now;
    let key = context.source.allowance(policy.allowance);
    if sliding_log::is_kept_by(allowance) {
        return gcra::units(sliding_log::wait(&key, allowance, now));
    }
    let Some(bucket) = buckets::find(&key) else { return 0 };
    gcra::units(window::wait(bucket, allowance, now, context.amounts_refused(allowance)))
}

/// Returns whether a limit is soft: a share of the packets above it passes.
#[inline(always)]
pub(super) fn is_soft(policy: &Policy) -> bool {
    settings::is_on(&settings::SOFT_ON) && policy.allowance != 0
}
