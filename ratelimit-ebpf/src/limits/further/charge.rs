//! Charges a further limit.

use ratelimit_common::{limits::policy::Policy, maps::control::Control, meters::meter::Meter, reason::Reason};

use crate::{
    bpf::{atomic::Word, verifier::given},
    cells::level,
    limits::{
        further::limit::{FAR, Further, are_on},
        stages::{charged, pair::Pair},
    },
    maps::{
        buckets::{self, Bucket},
        exchange::Charge,
        payment::Payment,
        this_cpu::{LAST, WIDER},
    },
    meters::{gcra::charge_globally, token_bucket, two_limits},
    packet::context::Context,
};

/// Charges the limit with a packet, and returns whether it refuses it, and why.
#[inline(always)]
#[must_use]
pub fn charge(context: &Context, control: &Control, which: u32, now: u64) -> Reason {
    charge_further(context, control, which, now)
}

/// Gives the charge of the wider parent back.
#[inline(always)]
pub fn refund(context: &Context, control: &Control, now: u64) {
    refund_further(context, control, now);
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn charge_further(context: *const Context, control: *const Control, which: u32, now: u64) -> Reason {
    if !are_on() {
        return Reason::WithinLimit;
    }
    let (Some(context), Some(control)) = (given(context), given(control)) else { return Reason::NoState };
    let Some(limit) = Further::of(context, control, which, now) else { return Reason::WithinLimit };
    let place = if which == FAR { WIDER } else { LAST };
    let Some([first, also]) = limit.payments(place) else { return Reason::NoState };
    let Policy { packets, second, .. } = limit.policy;
    let outcome = match limit.levels {
        Some(levels) => two_limits::charge(
            limit.policy,
            [packets.is_on(), second.is_on()],
            || pay(&limit, &levels.packets, |bucket| &bucket.packets, packets, first),
            || pay(&limit, &levels.second, |bucket| &bucket.second, second, also),
            |_| charged::give_back(place, Some(levels), buckets::find(&limit.key)),
        ),
        None => {
            // The check has created it.
            let Some(bucket) = buckets::find(&limit.key) else { return Reason::TableFull };
            let outcome = token_bucket::charge_with(bucket, limit.policy, &limit.clock, limit.amounts, charge_globally);
            if let Ok(states) = outcome {
                charged::record(place, limit.policy, limit.amounts, states);
            }
            outcome
        }
    };
    outcome.err().unwrap_or(Reason::WithinLimit)
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
    if let Some(charged) = level::charge_level(level, meter, &limit.clock, cost) {
        payment.record_level(cost, charged);
        return Some(charged);
    }
    let bucket = buckets::find(&limit.key)?;
    (Pair::new(level, own(bucket), meter).pay(payment, &limit.clock) == Charge::Paid).then_some(0)
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn refund_further(context: *const Context, control: *const Control, now: u64) -> u32 {
    if !are_on() {
        return 0;
    }
    let (Some(context), Some(control)) = (given(context), given(control)) else { return 0 };
    let Some(limit) = Further::of(context, control, FAR, now) else { return 0 };
    charged::give_back(WIDER, limit.levels, buckets::find(&limit.key));
    0
}
