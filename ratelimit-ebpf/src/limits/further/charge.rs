//! Charges a further limit.

use ratelimit_common::{
    limits::policy::Policy,
    maps::control::Control,
    meters::{meter::Meter, stages::Part},
    reason::Reason,
};

use crate::{
    bpf::{atomic::Word, settings, verifier::given},
    limits::{
        further::limit::{Further, NEAR, are_on},
        stages::{Pair, charge_level, give_back, record_states},
    },
    maps::{
        buckets::{self, Bucket},
        exchange::{self, Charge},
        this_cpu::{LAST, NARROWER, Payment},
    },
    meters::token_bucket::{self, charge_globally},
    packet::context::Context,
};

/// Charges the limit with a packet, and returns whether it refuses it, and why.
#[inline(always)]
#[must_use]
pub fn charge(context: &Context, control: &Control, which: u32, now: u64) -> Reason {
    match settings::has_cells() {
        true => charge_stages(context, control, which, now),
        false => charge_bucket(context, control, which, now),
    }
}

/// Gives the charge of the narrower parent back.
#[inline(always)]
pub fn refund(context: &Context, control: &Control, now: u64) {
    refund_further(context, control, now);
}

/// Returns the place of the charges of a limit.
#[inline(always)]
fn place_of(which: u32) -> u32 {
    if which == NEAR { NARROWER } else { LAST }
}

/// Charges the levels and the bucket.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn charge_stages(context: *const Context, control: *const Control, which: u32, now: u64) -> Reason {
    if !are_on() || !settings::has_cells() {
        return Reason::WithinLimit;
    }
    let (Some(context), Some(control)) = (given(context), given(control)) else { return Reason::NoState };
    let Some(limit) = Further::of(context, control, which, now) else { return Reason::WithinLimit };
    let Some(levels) = limit.levels else { return Reason::NoState };
    let Some([first, also]) = limit.payments(context, place_of(which)) else { return Reason::NoState };
    let Policy { packets, second, .. } = limit.policy;
    let outcome = exchange::charge_both(
        limit.policy,
        [packets.is_on(), second.is_on()],
        || pay(&limit, &levels.packets, |bucket| &bucket.packets, packets, first),
        || pay(&limit, &levels.second, |bucket| &bucket.second, second, also),
        |_| give_back(place_of(which), Some(levels), buckets::find(&limit.key)),
    );
    outcome.err().unwrap_or(Reason::WithinLimit)
}

/// Charges the bucket, without cells.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn charge_bucket(context: *const Context, control: *const Control, which: u32, now: u64) -> Reason {
    if !are_on() || settings::has_cells() {
        return Reason::WithinLimit;
    }
    let (Some(context), Some(control)) = (given(context), given(control)) else { return Reason::NoState };
    let Some(limit) = Further::of(context, control, which, now) else { return Reason::WithinLimit };
    // The check has created it.
    let Some(bucket) = buckets::find(&limit.key) else { return Reason::TableFull };
    let amounts = context.amounts(limit.policy);
    match token_bucket::charge_with(bucket, limit.policy, &limit.clock, amounts, charge_globally) {
        Ok(states) => {
            record_states(place_of(which), limit.policy, amounts, states);
            Reason::WithinLimit
        }
        Err(reason) => reason,
    }
}

/// Charges one limit: its level, or both stages. Returns something if the limit has room.
#[inline(always)]
fn pay(
    limit: &Further<'_>,
    level: &Word,
    own: impl Fn(&'static Bucket) -> &'static Word,
    meter: &Meter,
    payment: &Payment,
) -> Option<u64> {
    let cost = payment.cost.load();
    if let Some(charged) = charge_level(level, Part::Share.of(meter), &limit.clock, cost) {
        payment.record_level(cost, charged);
        return Some(charged);
    }
    let bucket = buckets::find(&limit.key)?;
    (Pair::new(level, own(bucket), meter).pay(payment) == Charge::Paid).then_some(0)
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn refund_further(context: *const Context, control: *const Control, now: u64) -> u32 {
    if !are_on() {
        return 0;
    }
    let (Some(context), Some(control)) = (given(context), given(control)) else { return 0 };
    let Some(limit) = Further::of(context, control, NEAR, now) else { return 0 };
    give_back(NARROWER, limit.levels, buckets::find(&limit.key));
    0
}
