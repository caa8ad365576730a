//! Refused packets of sources with a lease: how long the lease refuses, and how many there were.

use ratelimit_common::{
    cells::cached_refusal::CachedRefusal,
    fleet::lease,
    limits::policy::Policy,
    maps::control::Control,
    meters::{
        gcra::{self, Units},
        meter::Meter,
        state,
    },
    reason::Reason,
};

use crate::{
    bpf::{atomic::Word, settings, verifier::given},
    maps::leases,
    packet::context::Context,
    shares::lease::{hash_of, lease_of},
};

/// Returns the time for which the lease still refuses every packet of the source, also the smallest.
#[inline(always)]
#[must_use]
pub fn wait(context: &Context, control: &Control) -> Units {
    if settings::has_leases() { wait_of_lease(context, control) } else { 0 }
}

/// Counts a packet that a limit or the lease refuses.
#[inline(always)]
pub fn count(context: &Context, control: &Control) {
    if settings::has_leases() {
        count_in_lease(context, hash_of(context, control), 1, 0);
    }
}

/// Counts packets like this one in the lease of the source with this hash, unless a rule, a list or a ban refuses them:
/// `check` of the cached refusal tells.
#[inline(always)]
pub fn count_cached(context: &Context, hash: u64, packets: u64, check: u64) {
    if settings::has_leases() {
        count_in_lease(context, hash, packets, check);
    }
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn wait_of_lease(context: *const Context, control: *const Control) -> u64 {
    if !settings::has_leases() {
        return 0;
    }
    let (Some(context), Some(control)) = (given(context), given(control)) else { return 0 };
    let (Some(policy), Some(lease)) = (context.policy(), lease_of(context, control)) else { return 0 };
    let Policy { packets, second, .. } = policy;
    let (multiplier, now) = (lease.multiplier.load(), gcra::units(context.now));
    let of = |word: &Word, meter: &Meter| {
        let (debt, cost) = (state::debt(word.load(), now), lease::multiplied(meter.cost_of(1), multiplier));
        if !meter.is_on() {
            0
        } else if cost > meter.burst {
            debt
        } else {
            (debt + cost).saturating_sub(meter.burst)
        }
    };
    let (first, also) = (of(&lease.packets, packets), of(&lease.second, second));
    let left = gcra::units(lease.end.load().saturating_sub(context.tick));
    let wait = if first > also { first } else { also };
    if wait < left { wait } else { left }
}

/// It calls nothing, because its callers leave little of the stack.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn count_in_lease(context: *const Context, hash: u64, packets: u64, check: u64) -> u32 {
    if !settings::has_leases() {
        return 0;
    }
    let (Some(context), refusal) = (given(context), CachedRefusal { until: 0, check }) else { return 0 };
    let is_by_rule = refusal.refuses_everything() && refusal.reason() != Reason::OverShare;
    if is_by_rule || !leases::may_have(hash) {
        return 0;
    }
    if let Some(lease) = leases::find(hash, context.tick) {
        lease.refused.add(packets);
        if settings::is_on(&settings::BYTES_ON) {
            lease.refused_bytes.add(packets * u64::from(context.length()));
        }
    }
    0
}
