//! A packet that a limit has refused: it passes for another reason, or its refusal is counted, perhaps punished by a ban,
//! and cached for as long as it is certain.

use aya_ebpf::programs::XdpContext;
use ratelimit_common::{
    limits::{
        limit::SECOND,
        policy::{DROP, Policy},
    },
    maps::control::Control,
    meters::gcra::{self, Units},
    reason::Reason,
};

use crate::{
    bpf::{
        settings,
        verifier::{given, handed},
    },
    cells::cached_refusal,
    connections::spare::{self, Answer},
    limits::{parents, source_bucket, source_limits::Cells},
    maps::{
        buckets::Bucket,
        cells::{Cell, Levels},
    },
    meters::interface_capacity,
    overlimit::{
        ban,
        soft::{self, is_soft},
    },
    packet::context::{Context, OF_A_PEER},
    shares::refused,
    telemetry,
};

/// Returns the final reason of a packet that its policy refuses. `bucket` is that of the source, if it has one.
#[inline(always)]
#[must_use]
pub fn settle<const FRAGS: bool>(
    ctx: &XdpContext,
    context: &mut Context,
    control: &Control,
    policy: &Policy,
    cells: Option<Cells>,
    bucket: Option<&Bucket>,
) -> Reason {
    // Asked here, because of the stack.
    if is_soft(policy) && is_own(context.reason) && soft::admits(context, control, policy) {
        context.reason = Reason::WithinSoft;
    }
    if settings::is_on(&settings::ELASTIC_ON)
        && policy.elastic != 0
        && !context.reason.passes()
        && interface_capacity::has_room(context)
    {
        context.reason = Reason::WithinCapacity;
    }
    if !context.reason.passes() {
        match spare::ask::<FRAGS>(ctx, context, control) {
            Answer::Spared => context.reason = Reason::OwnConnection,
            Answer::OverRate => return context.reason,
            Answer::NotOwn => {}
        }
    }
    let (levels, refusals) = (cells.map(|cells| cells.levels), cells.map(|cells| cells.refusals));
    let reason = settle_refusal(context, control, handed(refusals), handed(bucket));
    let is_cached = is_own(reason)
        || settings::is_on(&settings::PARENTS_ON) && reason == Reason::OverParent
        || settings::has_leases() && reason == Reason::OverShare;
    if settings::has_cells() && is_cached {
        cache_over_limit(context, control, handed(levels), handed(refusals), handed(bucket));
    }
    reason
}

/// Counts the refusal, reports it, and bans the source if its policy says so. Returns the final reason.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn settle_refusal(
    context: *const Context,
    control: *const Control,
    refusals: *const Cell,
    bucket: *const Bucket,
) -> Reason {
    let (Some(context), Some(control)) = (given(context), given(control)) else { return Reason::NoState };
    let Some(policy) = context.policy() else { return Reason::NoState };
    let reason = context.reason;
    if settings::has_leases() && !reason.passes() {
        refused::count(context, control);
    }
    let Some(bucket) = given(bucket) else { return reason };
    if reason.passes() {
        bucket.counts.count_passed(context.tick, 1, u64::from(context.length()));
        return reason;
    }
    if is_own(reason) {
        telemetry::report_refusal(
            context,
            given(refusals).filter(|_| settings::has_cells()),
            bucket,
            policy.over_limit,
        );
        // A ban would outlast a rehearsal. Own connections fill the limit of their source without an offence.
        let may_ban = settings::has_bans() && !settings::is_on(&settings::SHADOW_ON) && context.own() < OF_A_PEER;
        if may_ban && policy.ban.time != 0 && source_bucket::is_certain(context, policy, bucket) {
            ban::impose(context, control, policy);
        }
    }
    bucket.counts.count_refused(context.tick, policy.over_limit, 1, u64::from(context.length()));
    reason
}

/// Longest time for which a refusal by a parent or a lease is cached.
const LONGEST: Units = gcra::units(SECOND);
/// Shortest such time. The work would not pay for less.
const SHORTEST: Units = gcra::units(SECOND / 20_000);

/// Returns whether the source's own limit refuses, and not a parent.
#[inline(always)]
fn is_own(reason: Reason) -> bool {
    matches!(reason, Reason::OverPackets | Reason::OverBytes)
}

/// Caches the refusal, unless each drop must be counted, the policy says more than a cached refusal can, or the cell has
/// no place.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn cache_over_limit(
    context: *const Context,
    control: *const Control,
    levels: *const Levels,
    refusals: *const Cell,
    bucket: *const Bucket,
) -> u32 {
    if !settings::has_cells() {
        return 0;
    }
    let (Some(context), Some(control)) = (given(context), given(control)) else { return 0 };
    let (Some(policy), Some(refusals)) = (context.policy(), given(refusals)) else { return 0 };
    // A refusal in shadow bans no source. One on an interface that is not in shadow must still do so.
    let are_drops_counted = policy.ban.time != 0 && (policy.ban.after > 1 || settings::is_on(&settings::SHADOW_ON));
    let is_plain = policy.elastic == 0 || policy.over_limit == DROP;
    if are_drops_counted || !is_plain || !cached_refusal::has_place(context, refusals) {
        return 0;
    }
    if is_own(context.reason) {
        let (Some(levels), Some(bucket)) = (given(levels), given(bucket)) else { return 0 };
        let wait = source_bucket::wait(context, policy, bucket, levels, &context.clock(control));
        let wait = if is_soft(policy) { wait.min(soft::wait(context, control, policy)) } else { wait };
        cached_refusal::cache(context, refusals, policy, wait, context.reason == Reason::OverBytes);
        return 0;
    }
    let (wait, by_bytes) = if settings::has_leases() && context.reason == Reason::OverShare {
        // Without the own limit, no packet would lead to its ban.
        if policy.ban.time != 0 {
            return 0;
        }
        (refused::wait(context, control), false)
    } else if settings::is_on(&settings::PARENTS_ON) {
        parents::wait(context, control, policy)
    } else {
        return 0;
    };
    // A parent may get a charge back, or the fleet leave the source more, so that there is room sooner.
    let wait = wait.min(LONGEST);
    if wait >= SHORTEST {
        cached_refusal::cache(context, refusals, policy, wait, by_bytes);
    }
    0
}
