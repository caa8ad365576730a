//! A packet that a limit has refused: it passes for another reason, or its refusal is cached, counted and perhaps
//! punished by a ban.

use aya_ebpf::programs::XdpContext;
use ratelimit_common::{limits::policy::Policy, maps::control::Control, reason::Reason};

use crate::{
    bpf::{
        settings,
        verifier::{given, handed},
    },
    connections::spare::{self, Answer},
    limits::{source_bucket, source_limits::Cells},
    maps::{buckets::Bucket, cells::Cell},
    meters::interface_capacity,
    overlimit::{
        ban,
        cache::{self, is_own},
        soft::{self, is_soft},
    },
    packet::context::{Context, OF_A_PEER},
    shares::refused,
    telemetry::events,
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
        cache::over_limit(context, control, levels, refusals, bucket);
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
        events::refused(context, given(refusals).filter(|_| settings::has_cells()), bucket, policy.over_limit);
        // A ban would outlast a rehearsal. Own connections fill the limit of their source without an offence.
        let may_ban = settings::has_bans() && !settings::is_on(&settings::SHADOW_ON) && context.own() < OF_A_PEER;
        if may_ban && policy.ban.time != 0 && source_bucket::is_certain(context, policy, bucket) {
            ban::impose(context, control, policy);
        }
    }
    bucket.counts.count_refused(context.tick, policy.over_limit, 1, u64::from(context.length()));
    reason
}
