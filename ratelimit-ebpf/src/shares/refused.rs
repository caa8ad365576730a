//! Packets that are refused although or because their source has a lease: for how long, and how many.

use ratelimit_common::{
    fleet::lease,
    limits::policy::Policy,
    maps::control::Control,
    meters::{
        gcra::{self, Units},
        meter::Meter,
        state,
    },
};

use crate::{
    bpf::{atomic::Word, settings, verifier::given},
    maps::leases,
    packet::context::Context,
    shares::find,
};

/// Returns the time for which the lease still refuses packets like this one.
#[inline(always)]
#[must_use]
pub fn wait(context: &Context, control: &Control) -> Units {
    if settings::has_leases() { wait_of_lease(context, control) } else { 0 }
}

/// Counts packets like this one, which are refused, in the lease of its source.
#[inline(always)]
pub fn count(context: &Context, control: &Control, packets: u64) {
    if settings::has_leases() {
        count_in_lease(context, find::hash(context, control), packets);
    }
}

/// Counts packets like this one, which are refused, in the lease of the source with this hash.
#[inline(always)]
pub fn count_of(context: &Context, hash: u64, packets: u64) {
    if settings::has_leases() {
        count_in_lease(context, hash, packets);
    }
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn wait_of_lease(context: *const Context, control: *const Control) -> u64 {
    if !settings::has_leases() {
        return 0;
    }
    let (Some(context), Some(control)) = (given(context), given(control)) else { return 0 };
    let (Some(policy), Some(lease)) = (context.policy(), find::of(context, control)) else { return 0 };
    let (Policy { packets, second, .. }, [one, amount]) = (policy, context.amounts(policy));
    let (multiplier, now) = (lease.multiplier.load(), gcra::units(context.now));
    let of = |word: &Word, meter: &Meter, amount| {
        let (debt, cost) = (state::debt(word.load(), now), lease::multiplied(meter.cost_of(amount), multiplier));
        if !meter.is_on() {
            0
        } else if cost > meter.burst {
            debt
        } else {
            (debt + cost).saturating_sub(meter.burst)
        }
    };
    let (first, also) = (of(&lease.packets, packets, one), of(&lease.second, second, amount));
    let left = gcra::units(lease.end.load().saturating_sub(context.tick));
    let wait = if first > also { first } else { also };
    if wait < left { wait } else { left }
}

/// It calls nothing, because its callers leave little of the stack.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn count_in_lease(context: *const Context, hash: u64, packets: u64) -> u32 {
    if !settings::has_leases() {
        return 0;
    }
    let Some(context) = given(context) else { return 0 };
    if let Some(lease) = leases::find(hash, context.tick) {
        lease.refused.add(packets);
        lease.refused_bytes.add(packets * u64::from(context.length()));
    }
    0
}
