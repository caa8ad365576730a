//! The wider limits above a source's own, each with one bucket for many sources.
//!
//! All are asked before any is charged, and what was charged is given back if one is lost to another CPU after all: a refusal by one
//! never spends what another has.

use ratelimit_common::{
    bucket::Resolution,
    gcra,
    policy::{Parent, Policy, UNLIMITED_ID},
    reason::Reason,
    source::Source,
};

use crate::{admission, bucket::Tracked, charge::charge_apart, front, maps::POLICIES, tracking, visit::Visit};

/// A limit that is asked: its state and its numbers.
#[derive(Clone, Copy)]
struct Limit<'a> {
    bucket: &'a Tracked,
    policy: &'a Policy,
}

/// What the source's own limit and its parents say together. A function of its own, for few policies have parents.
///
/// While the source can have no bucket of its own, its parents are asked all the same.
#[inline(never)]
#[must_use]
pub fn ask(visit: &Visit<'_>) -> Reason {
    let Some(policy) = visit.policy() else { return Reason::NoState };
    let mut own = visit.bucket.or_else(|| tracking::find(&visit.source));
    if own.is_none() && (!front::is_on() || admission::admits(visit.control, visit.now)) {
        let now = gcra::units(visit.now);
        admission::make(&visit.source, now, now, visit.resolution);
        own = tracking::find(&visit.source);
    }
    let limit = match own {
        Some(bucket) => Limit { bucket, policy },
        None => {
            let [near, _] = *policy.parents(visit.source.family);
            let spare = parent_bucket(&visit.source.parent(near, visit.interface), visit.now);
            let (Some(bucket), Some(policy)) = (spare, POLICIES.get(UNLIMITED_ID)) else { return Reason::TableFull };
            Limit { bucket, policy }
        }
    };
    let reason = judge(visit, policy, limit);
    match own {
        Some(bucket) => bucket.count(reason.passes(), visit.length),
        None if reason == Reason::WithinLimit => return Reason::TableFull,
        None => {}
    }
    reason
}

/// Asks all, then charges all.
#[inline(always)]
fn judge(asker: &Visit<'_>, policy: &Policy, own: Limit<'_>) -> Reason {
    let [near, far] = *policy.parents(asker.source.family);
    let (Some(near), Some(far)) = (asker.limit(own, near), asker.limit(own, far)) else {
        // Without its bucket a parent cannot be asked, but the source's own limit can.
        let reason = asker.charge(own);
        return if reason == Reason::WithinLimit { Reason::TableFull } else { reason };
    };
    if let Some(refusal) = asker.refusal(own) {
        return refusal;
    }
    if asker.refusal(near).is_some() || asker.refusal(far).is_some() {
        return Reason::OverParent;
    }
    let reason = asker.charge(near);
    if reason != Reason::WithinLimit {
        return over_parent(reason);
    }
    let reason = asker.charge(far);
    if reason != Reason::WithinLimit {
        asker.refund(near);
        return over_parent(reason);
    }
    let reason = asker.charge(own);
    if reason != Reason::WithinLimit {
        asker.refund(near);
        asker.refund(far);
    }
    reason
}

/// The reason of a packet that a parent refuses.
#[inline(always)]
fn over_parent(reason: Reason) -> Reason {
    if reason == Reason::Contended { reason } else { Reason::OverParent }
}

impl Visit<'_> {
    /// A parent; where there is none, one that never refuses. Nothing if its bucket cannot be made.
    #[inline(always)]
    fn limit<'a>(&self, own: Limit<'a>, parent: Parent) -> Option<Limit<'a>> {
        if parent.scope == 0 {
            return Some(Limit { bucket: own.bucket, policy: POLICIES.get(UNLIMITED_ID)? });
        }
        let bucket = parent_bucket(&self.source.parent(parent, self.interface), self.now)?;
        Some(Limit { bucket, policy: POLICIES.get(u32::from(parent.policy))? })
    }

    #[inline(always)]
    fn refusal(&self, Limit { bucket, policy }: Limit<'_>) -> Option<Reason> {
        bucket.refusal(policy, &self.clock(), self.length)
    }

    #[inline(always)]
    fn charge(&self, Limit { bucket, policy }: Limit<'_>) -> Reason {
        bucket.charge(policy, &self.clock(), self.length, charge_apart)
    }

    #[inline(always)]
    fn refund(&self, Limit { bucket, policy }: Limit<'_>) {
        bucket.refund(policy, &self.clock(), self.length);
    }
}

/// The bucket of a parent, made if there is none. It has no policy to resolve: its key names it.
#[inline(never)]
fn parent_bucket(key: &Source, now: u64) -> Option<&'static Tracked> {
    tracking::find(key).or_else(|| {
        admission::make(key, gcra::units(now), gcra::units(now), Resolution::NONE);
        tracking::find(key)
    })
}
