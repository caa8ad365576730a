//! Caches refusals of limits, for as long as they are certain.

use ratelimit_common::{
    limits::{limit::SECOND, policy::DROP},
    maps::control::Control,
    meters::gcra::{self, Units},
    reason::Reason,
};

use crate::{
    bpf::{
        settings,
        verifier::{given, handed},
    },
    cells::caching,
    limits::{parents, source_bucket},
    maps::{buckets::Bucket, cells::Cell, levels::Levels},
    overlimit::soft::{self, is_soft},
    packet::context::Context,
    shares::refused,
};

/// Longest time for which a refusal by a parent or a lease is cached.
const LONGEST: Units = gcra::units(SECOND);
/// Shortest such time. The work would not pay for less.
const SHORTEST: Units = gcra::units(SECOND / 20_000);

/// Returns whether the source's own limit refuses, and not a parent.
#[inline(always)]
pub(super) fn is_own(reason: Reason) -> bool {
    matches!(reason, Reason::OverPackets | Reason::OverBytes)
}

/// Caches that the context's source is over its limit. `levels`, `refusals` and `bucket` are those of the source.
#[inline(always)]
pub(super) fn over_limit(
    context: &Context,
    control: &Control,
    levels: Option<&Levels>,
    refusals: Option<&Cell>,
    bucket: Option<&Bucket>,
) {
    cache_over_limit(context, control, handed(levels), handed(refusals), handed(bucket));
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
    if are_drops_counted || !is_plain || !caching::has_place(context, refusals) {
        return 0;
    }
    if is_own(context.reason) {
        let (Some(levels), Some(bucket)) = (given(levels), given(bucket)) else { return 0 };
        let wait = source_bucket::wait(context, policy, bucket, levels, &context.clock(control));
        let wait = if is_soft(policy) { wait.min(soft::wait(context, control, policy)) } else { wait };
        caching::cache(context, refusals, policy, wait, context.reason == Reason::OverBytes);
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
        caching::cache(context, refusals, policy, wait, by_bytes);
    }
    0
}
