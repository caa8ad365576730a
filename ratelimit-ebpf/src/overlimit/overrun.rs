//! What becomes of a packet that a limit has refused: it passes for another reason, or its source is noted, counted and banned.

use ratelimit_common::{
    limits::policy::{DROP, Policy},
    reason::Reason,
};

use crate::{
    bpf::{
        settings,
        verifier::{given, handed},
    },
    cells::cell,
    limits::windowed,
    maps::all::CONTROL,
    meters::{interface_capacity, token_bucket::Tracked},
    overlimit::{ban, refusals, soft},
    packet::context::Visit,
    telemetry::events,
};

/// The reason in the end. `bucket` is that of the source, if it has one.
#[inline(always)]
#[must_use]
pub fn settle(visit: &Visit, bucket: Option<&Tracked>) -> Reason {
    settle_refusal(visit, handed(bucket))
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn settle_refusal(visit: *const Visit, bucket: *const Tracked) -> Reason {
    let Some(visit) = given(visit) else { return Reason::NoState };
    let Some(policy) = visit.policy() else { return Reason::NoState };
    let is_own = matches!(visit.reason, Reason::OverPackets | Reason::OverBytes);
    let is_soft = settings::is_on(&settings::SOFT_ON) && policy.allowance != 0;
    let reason = if is_soft && is_own && soft::admits(visit) {
        Reason::WithinSoft
    } else if settings::is_on(&settings::ELASTIC_ON) && policy.elastic != 0 && interface_capacity::has_room(visit) {
        Reason::WithinCapacity
    } else {
        visit.reason
    };
    let Some(bucket) = given(bucket) else { return reason };
    if reason.passes() {
        bucket.counts.count_passed(1, u64::from(visit.length()));
        return reason;
    }
    if is_own {
        events::refused(visit, bucket, policy.over_limit);
        refuse(visit, policy, bucket);
    }
    bucket.counts.count_dropped(policy.over_limit, 1, u64::from(visit.length()));
    reason
}

/// Notes a refusal and bans its source, as far as the policy says so. Who is banned only after many drops has each of them counted, without a note.
#[inline(always)]
fn refuse(visit: &Visit, policy: &Policy, bucket: &Tracked) {
    let Some(control) = CONTROL.get(0) else { return };
    let are_drops_counted = policy.ban.time != 0 && policy.ban.after > 1;
    // More than a note can say.
    let is_plain = policy.elastic == 0 || policy.over_limit == DROP;
    if cell::is_on() && !policy.has_parents() && !are_drops_counted && is_plain && refusals::is_kept(visit) {
        let wait = windowed::wait(visit, policy, bucket, &visit.clock(control));
        let is_soft = settings::is_on(&settings::SOFT_ON) && policy.allowance != 0;
        refusals::write_for(visit, policy, if is_soft { wait.min(soft::wait(visit)) } else { wait });
    }
    // A rehearsal shuts nobody out, who would stay out when it ends.
    let is_rehearsal = settings::is_on(&settings::SHADOW_ON);
    if policy.ban.time != 0 && !is_rehearsal && windowed::is_certain(visit, policy, bucket) {
        ban::impose(visit, policy);
    }
}
