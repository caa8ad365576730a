//! A packet that a limit has refused: it passes for another reason, or its refusal is cached, counted and perhaps
//! punished by a ban.

use ratelimit_common::{
    limits::policy::{DROP, Policy},
    maps::control::Control,
    reason::Reason,
};

use crate::{
    bpf::{
        settings,
        verifier::{given, handed},
    },
    cells::caching,
    limits::{ask::Cells, windowed},
    maps::{buckets::Bucket, cells::Cell},
    meters::interface_capacity,
    overlimit::{ban, soft},
    packet::context::Context,
    telemetry::events,
};

/// Returns the final reason of a packet that its policy refuses. `bucket` is that of the source, if it has one.
#[inline(always)]
#[must_use]
pub fn settle(
    context: &mut Context,
    control: &Control,
    policy: &Policy,
    cells: Option<Cells>,
    bucket: Option<&Bucket>,
) -> Reason {
    // Asked here, because of the stack.
    if is_soft(policy) && is_own(context.reason) && soft::admits(context, control) {
        context.reason = Reason::WithinSoft;
    }
    let (levels, refusals) = (cells.map(|cells| cells.levels), cells.map(|cells| cells.refusals));
    settle_refusal(context, control, handed(levels), handed(refusals), handed(bucket))
}

/// Returns whether a limit is soft: a share of the packets above it passes.
#[inline(always)]
fn is_soft(policy: &Policy) -> bool {
    settings::is_on(&settings::SOFT_ON) && policy.allowance != 0
}

/// Returns whether the source's own limit refuses, and not a parent.
#[inline(always)]
fn is_own(reason: Reason) -> bool {
    matches!(reason, Reason::OverPackets | Reason::OverBytes)
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn settle_refusal(
    context: *const Context,
    control: *const Control,
    levels: *const Cell,
    refusals: *const Cell,
    bucket: *const Bucket,
) -> Reason {
    let (Some(context), Some(control)) = (given(context), given(control)) else { return Reason::NoState };
    let Some(policy) = context.policy() else { return Reason::NoState };
    let mut reason = context.reason;
    let is_elastic = settings::is_on(&settings::ELASTIC_ON) && policy.elastic != 0;
    if is_elastic && !reason.passes() && interface_capacity::has_room(context) {
        reason = Reason::WithinCapacity;
    }
    let Some(bucket) = given(bucket) else { return reason };
    if reason.passes() {
        bucket.counts.count_passed(1, u64::from(context.length()));
        return reason;
    }
    if is_own(reason) {
        let refusals = given(refusals).filter(|_| settings::has_cells());
        events::refused(context, refusals, bucket, policy.over_limit);
        if let (Some(levels), Some(refusals)) = (given(levels), refusals) {
            cache(context, control, policy, levels, refusals, bucket);
        }
        // A rehearsal bans no source, since the ban would outlast it.
        let may_ban = settings::has_bans() && !settings::is_on(&settings::SHADOW_ON);
        if may_ban && policy.ban.time != 0 && windowed::is_certain(context, policy, bucket) {
            ban::impose(context, control, policy);
        }
    }
    bucket.counts.count_dropped(policy.over_limit, 1, u64::from(context.length()));
    reason
}

/// Caches the refusal, unless each drop must be counted, or the policy says more than a cached refusal can.
#[inline(always)]
fn cache(context: &Context, control: &Control, policy: &Policy, levels: &Cell, refusals: &Cell, bucket: &Bucket) {
    let are_drops_counted = policy.ban.time != 0 && policy.ban.after > 1;
    let is_plain = policy.elastic == 0 || policy.over_limit == DROP;
    if !policy.has_parents() && !are_drops_counted && is_plain && caching::has_place(context, refusals) {
        let wait = windowed::wait(context, policy, bucket, levels, &context.clock(control));
        let wait = if is_soft(policy) { wait.min(soft::wait(context)) } else { wait };
        caching::cache(context, refusals, policy, wait);
    }
}
