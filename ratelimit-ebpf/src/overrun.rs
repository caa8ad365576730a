//! What becomes of a packet that a limit has refused: it passes for another reason, or its source is noted, counted and banned.

use ratelimit_common::{
    policy::{DROP, Policy},
    reason::Reason,
};

use crate::{algorithm, allowance, ban, bucket::Tracked, capacity, front, notes, settings, visit::Visit};

/// The reason in the end.
#[inline(never)]
#[must_use]
pub fn settle(visit: &Visit<'_>, refusal: Reason) -> Reason {
    let Some(policy) = visit.policy() else { return Reason::NoState };
    let is_own = matches!(refusal, Reason::OverPackets | Reason::OverBytes);
    if settings::is_on(&settings::SOFT_ON) && is_own && policy.allowance != 0 && allowance::admits(visit, policy) {
        return passes(visit, Reason::WithinSoft);
    }
    if settings::is_on(&settings::ELASTIC_ON) && policy.elastic != 0 && capacity::has_room(visit) {
        return passes(visit, Reason::WithinCapacity);
    }
    let Some(bucket) = visit.bucket else { return refusal };
    if is_own {
        refuse(visit, policy, bucket, refusal);
    }
    bucket.count_dropped(policy.over_limit, 1, u64::from(visit.length()));
    refusal
}

#[inline(always)]
fn passes(visit: &Visit<'_>, reason: Reason) -> Reason {
    if let Some(bucket) = visit.bucket {
        bucket.count_passed(1, u64::from(visit.length()));
    }
    reason
}

/// Notes a refusal and bans its source, as far as the policy says so. Who is banned only after many drops has each of them counted, without a note.
#[inline(always)]
fn refuse(visit: &Visit<'_>, policy: &Policy, bucket: &Tracked, refusal: Reason) {
    let are_drops_counted = policy.ban.time != 0 && policy.ban.after > 1;
    let is_plain = policy.elastic == 0 || policy.over_limit == DROP;
    // Parents, and more than a note can say.
    if front::is_on() && !policy.has_parents() && !are_drops_counted && is_plain && notes::is_kept(visit) {
        let wait = algorithm::wait(visit, policy, bucket, refusal);
        notes::write_for(visit, policy, wait, refusal);
    }
    if policy.ban.time != 0 && algorithm::is_certain(visit, policy, bucket) {
        ban::impose(visit, policy, bucket);
    }
}
