//! Checks a further limit without a charge.

use ratelimit_common::{
    limits::policy::Policy,
    maps::control::Control,
    meters::{
        gcra::{self, Units},
        meter::Meter,
        stages::Part,
    },
    reason::Reason,
};

use crate::{
    bpf::{atomic::Word, verifier::given},
    limits::{
        further::limit::{Further, are_on},
        stages::{Pair, have_room},
    },
    maps::{
        buckets,
        this_cpu::{LAST, Payment},
    },
    meters::token_bucket,
    packet::context::Context,
};

/// Returns whether the limit refuses a packet, and why. Creates the bucket where the levels have no room.
#[inline(always)]
#[must_use]
pub fn check(context: &Context, control: &Control, which: u32, now: u64) -> Reason {
    check_further(context, control, which, now)
}

/// Returns the time after `now` for which the limit still refuses packets like this one, and whether its limit of bytes
/// does.
#[inline(always)]
#[must_use]
pub fn wait(context: &Context, control: &Control, which: u32, now: u64) -> (Units, bool) {
    let wait = wait_of_further(context, control, which, now);
    (wait & !BY_BYTES, wait & BY_BYTES != 0)
}

/// Set in the result of [`wait_of_further`] if bytes are refused. No time is that long.
const BY_BYTES: u64 = 1 << 63;

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn check_further(context: *const Context, control: *const Control, which: u32, now: u64) -> Reason {
    if !are_on() {
        return Reason::WithinLimit;
    }
    let (Some(context), Some(control)) = (given(context), given(control)) else { return Reason::NoState };
    let Some(limit) = Further::of(context, control, which, now) else { return Reason::WithinLimit };
    let amounts = context.amounts(limit.policy);
    let has_room = |levels| have_room(levels, limit.policy, &limit.clock, amounts, Part::Share);
    if limit.levels.is_some_and(has_room) {
        return Reason::WithinLimit;
    }
    let bucket = match limit.bucket(context.tick) {
        Ok(bucket) => bucket,
        Err(reason) => return reason,
    };
    let Some(levels) = limit.levels else {
        return token_bucket::refusal(bucket, limit.policy, &limit.clock, amounts).unwrap_or(Reason::WithinLimit);
    };
    let Some([first, also]) = limit.payments(context, LAST) else { return Reason::NoState };
    let Policy { packets, second, .. } = limit.policy;
    if refuses(&limit, [&levels.packets, &bucket.packets], packets, first) {
        Reason::OverPackets
    } else if refuses(&limit, [&levels.second, &bucket.second], second, also) {
        limit.policy.second_reason()
    } else {
        Reason::WithinLimit
    }
}

#[inline(always)]
fn refuses(limit: &Further<'_>, [level, own]: [&Word; 2], meter: &Meter, payment: &Payment) -> bool {
    meter.is_on() && Pair::new(level, own, meter).refuses(payment, &limit.clock)
}

/// Returns the wait, with [`BY_BYTES`].
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn wait_of_further(context: *const Context, control: *const Control, which: u32, now: u64) -> u64 {
    if !are_on() {
        return 0;
    }
    let (Some(context), Some(control)) = (given(context), given(control)) else { return 0 };
    let Some(limit) = Further::of(context, control, which, now) else { return 0 };
    let (Some(bucket), Some(levels)) = (buckets::find(&limit.key), limit.levels) else { return 0 };
    let (Policy { packets, second, .. }, [one, amount]) = (limit.policy, context.amounts(limit.policy));
    let first = Pair::new(&levels.packets, &bucket.packets, packets).wait(one, &limit.clock);
    let also = Pair::new(&levels.second, &bucket.second, second).wait(amount, &limit.clock);
    let by_bytes = if also > first && limit.policy.second_reason() == Reason::OverBytes { BY_BYTES } else { 0 };
    // The limit's clock may be behind.
    let behind = gcra::units(now.wrapping_sub(limit.clock.now()));
    first.max(also).saturating_sub(behind) | by_bytes
}
