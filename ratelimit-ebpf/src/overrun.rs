//! What becomes of a packet that a limit has refused: it passes for another reason, or its source is noted, counted and banned.

use ratelimit_common::{
    policy::{DROP, Policy},
    reason::Reason,
};

use crate::{
    algorithm, allowance,
    apart::{given, handed},
    ban,
    bucket::Tracked,
    capacity, front,
    maps::CONTROL,
    notes, settings,
    visit::Visit,
};

/// The reason in the end, where a soft limit has not its say before. `bucket` is that of the source, if it has one.
#[inline(always)]
#[must_use]
pub fn settle(visit: &Visit, policy: &Policy, bucket: Option<&Tracked>, refusal: Reason) -> Reason {
    if is_soft(policy) { refusal } else { settle_refusal(visit, handed(bucket), refusal) }
}

/// Whether hundredths of a limit pass above it.
#[inline(always)]
#[must_use]
pub fn is_soft(policy: &Policy) -> bool {
    settings::is_on(&settings::SOFT_ON) && policy.allowance != 0
}

/// The reason in the end where a soft limit has refused.
#[inline(always)]
#[must_use]
pub fn soften(visit: &Visit, refusal: Reason) -> Reason {
    soften_refusal(visit, refusal)
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn soften_refusal(visit: *const Visit, refusal: Reason) -> Reason {
    let Some(visit) = given(visit) else { return Reason::NoState };
    let is_own = matches!(refusal, Reason::OverPackets | Reason::OverBytes);
    let is_admitted = is_own && allowance::admits(visit);
    let bucket = algorithm::at_hand(visit);
    match (is_admitted, bucket) {
        (false, bucket) => settle_refusal(visit, handed(bucket), refusal),
        (true, Some(bucket)) => passes(visit, bucket, Reason::WithinSoft),
        (true, None) => Reason::WithinSoft,
    }
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn settle_refusal(visit: *const Visit, bucket: *const Tracked, refusal: Reason) -> Reason {
    let Some(visit) = given(visit) else { return Reason::NoState };
    let Some(policy) = visit.policy() else { return Reason::NoState };
    let has_room = settings::is_on(&settings::ELASTIC_ON) && policy.elastic != 0 && capacity::has_room(visit);
    let Some(bucket) = given(bucket) else { return if has_room { Reason::WithinCapacity } else { refusal } };
    if has_room {
        return passes(visit, bucket, Reason::WithinCapacity);
    }
    if matches!(refusal, Reason::OverPackets | Reason::OverBytes) {
        refuse(visit, policy, bucket, refusal);
    }
    bucket.count_dropped(policy.over_limit, 1, u64::from(visit.length()));
    refusal
}

/// Counts a packet that passes for its source.
#[inline(always)]
pub fn passes(visit: &Visit, bucket: &Tracked, reason: Reason) -> Reason {
    bucket.count_passed(1, u64::from(visit.length()));
    reason
}

/// Notes a refusal and bans its source, as far as the policy says so. Who is banned only after many drops has each of them counted, without a note.
#[inline(always)]
fn refuse(visit: &Visit, policy: &Policy, bucket: &Tracked, refusal: Reason) {
    let Some(control) = CONTROL.get(0) else { return };
    let are_drops_counted = policy.ban.time != 0 && policy.ban.after > 1;
    // More than a note can say.
    let is_plain = policy.elastic == 0 || policy.over_limit == DROP;
    if front::is_on() && !policy.has_parents() && !are_drops_counted && is_plain && notes::is_kept(visit) {
        let wait = algorithm::wait(visit, policy, bucket, &visit.clock(control));
        notes::write_for(visit, policy, wait, refusal);
    }
    if policy.ban.time != 0 && algorithm::is_certain(visit, policy, bucket) {
        ban::impose(visit, policy, bucket);
    }
}
