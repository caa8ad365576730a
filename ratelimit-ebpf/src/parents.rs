//! The wider limits above a source's own, each with one bucket for many sources.
//!
//! All are asked before any is charged, and what was charged is given back if one is lost to another CPU after all: a refusal by one
//! never spends what another has.

use ratelimit_common::{
    bucket::Resolution,
    control::Control,
    policy::{Parent, Policy, UNLIMITED_ID},
    reason::Reason,
    source::Source,
};

use crate::{
    bucket::Tracked,
    charge::charge_apart,
    clock::Clock,
    limiter,
    maps::{BUCKETS, POLICIES},
};

/// Everything about the packet whose source has parents.
pub struct Asker<'a> {
    /// The source's own bucket.
    pub bucket: &'a Tracked,
    /// The source's own policy.
    pub policy: &'a Policy,
    /// The source that is billed.
    pub source: Source,
    /// For the clock.
    pub control: &'a Control,
    /// Nanoseconds when the packet came.
    pub now: u64,
    /// Bytes of its frame.
    pub length: u32,
    /// Index of the interface that it came in by.
    pub interface: u32,
}

/// A limit that is asked: its state and its numbers.
#[derive(Clone, Copy)]
struct Limit<'a> {
    bucket: &'a Tracked,
    policy: &'a Policy,
}

/// What the source's own limit and its parents say together. A function of its own, for few policies have parents.
#[inline(never)]
#[must_use]
pub fn ask(asker: &Asker<'_>) -> Reason {
    let own = Limit { bucket: asker.bucket, policy: asker.policy };
    let [near, far] = *asker.policy.parents(asker.source.family);
    let (Some(near), Some(far)) = (asker.limit(near), asker.limit(far)) else {
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

impl<'a> Asker<'a> {
    /// A parent; where there is none, one that never refuses. Nothing if its bucket cannot be made.
    #[inline(always)]
    fn limit(&self, parent: Parent) -> Option<Limit<'a>> {
        if parent.scope == 0 {
            return Some(Limit { bucket: self.bucket, policy: POLICIES.get(UNLIMITED_ID)? });
        }
        let bucket = parent_bucket(&self.source.parent(parent, self.interface), self.now)?;
        Some(Limit { bucket, policy: POLICIES.get(u32::from(parent.policy))? })
    }

    #[inline(always)]
    fn refusal(&self, Limit { bucket, policy }: Limit<'_>) -> Option<Reason> {
        bucket.refusal(policy, &Clock::of(self.control, self.now), self.length)
    }

    #[inline(always)]
    fn charge(&self, Limit { bucket, policy }: Limit<'_>) -> Reason {
        bucket.charge(policy, &Clock::of(self.control, self.now), self.length, charge_apart)
    }

    #[inline(always)]
    fn refund(&self, Limit { bucket, policy }: Limit<'_>) {
        bucket.refund(policy, &Clock::of(self.control, self.now), self.length);
    }
}

/// The bucket of a parent, made if there is none. It has no policy to resolve: its key names it.
#[inline(never)]
fn parent_bucket(key: &Source, now: u64) -> Option<&'static Tracked> {
    // SAFETY: as in `limiter`.
    if let Some(bucket) = unsafe { BUCKETS.get(key) } {
        return Some(bucket);
    }
    limiter::make(key, now, Resolution::NONE);
    // SAFETY: as in `limiter`.
    unsafe { BUCKETS.get(key) }
}
