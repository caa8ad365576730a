//! The wider limits above a source's own, each with one bucket for many sources.
//!
//! All are asked before any is charged, and what was charged is given back if one is lost to another CPU after all: a refusal by one
//! never spends what another has.

use ratelimit_common::{
    buckets::bucket::Resolution,
    limits::policy::{Parent, Policy},
    maps::control::Control,
    meters::gcra,
    reason::Reason,
};

use crate::{
    bpf::clock::Clock,
    buckets::create,
    maps::all::{CONTROL, POLICIES},
    meters::{charge::charge_apart, token_bucket::Tracked},
    packet::context::Visit,
    rules::cache,
};

/// A limit that is asked: its state and its numbers. Without a state there is none. The numbers are there in any case: Linux 6.1 refuses to copy
/// what was never written.
#[derive(Clone, Copy)]
struct Limit<'a> {
    bucket: Option<&'a Tracked>,
    policy: &'a Policy,
}

/// Puts down in the visit what the source's own limit and its parents say together.
///
/// Without the bucket of one of them the packet is dropped where the budget for new ones is spent: nothing tells whether that limit is
/// reached. Where the map takes none, it passes by the others as one that could not be judged.
#[inline(never)]
#[must_use]
pub fn ask(visit: &mut Visit, at_hand: Option<&'static Tracked>) -> Option<&'static Tracked> {
    visit.reason = Reason::NotAdmitted;
    let (control, policy) = (CONTROL.get(0)?, visit.policy()?);
    let [near, far] = *policy.parents(visit.source.family);
    let has_own = at_hand.is_some()
        || create::ensure(&visit.source, gcra::units(visit.now), visit.resolution, control, visit.tick);
    if !has_own || !visit.ensures(control, near) || !visit.ensures(control, far) {
        return at_hand;
    }
    let own = at_hand.or_else(|| cache::find(&visit.source));
    let limits =
        Limits { own: Limit { bucket: own, policy }, near: visit.parent(near, policy), far: visit.parent(far, policy) };
    let is_missing = own.is_none() || visit.is_missing(near, limits.near) || visit.is_missing(far, limits.far);
    visit.reason = visit.judge(&visit.clock(control), limits);
    if visit.reason.passes() {
        if let Some(bucket) = own {
            bucket.counts.count_passed(1, u64::from(visit.length()));
        }
        if is_missing && visit.reason == Reason::WithinLimit {
            visit.reason = Reason::TableFull;
        }
    }
    own
}

/// The reason of a packet that a parent refuses.
#[inline(always)]
fn over_parent(reason: Reason) -> Reason {
    if reason == Reason::Contended { reason } else { Reason::OverParent }
}

/// The limits of a packet. Nothing is asked where there is none.
#[derive(Clone, Copy)]
struct Limits<'a> {
    own: Limit<'a>,
    near: Limit<'a>,
    far: Limit<'a>,
}

impl Visit {
    /// Asks all, then charges all.
    #[inline(always)]
    fn judge(&self, clock: &Clock<'_>, Limits { own, near, far }: Limits<'_>) -> Reason {
        if let Some(refusal) = self.refusal(clock, own) {
            return refusal;
        }
        if self.refusal(clock, near).is_some() || self.refusal(clock, far).is_some() {
            return Reason::OverParent;
        }
        let reason = self.charge(clock, near);
        if reason != Reason::WithinLimit {
            return over_parent(reason);
        }
        let reason = self.charge(clock, far);
        if reason != Reason::WithinLimit {
            self.refund(clock, near);
            return over_parent(reason);
        }
        let reason = self.charge(clock, own);
        if reason != Reason::WithinLimit {
            self.refund(clock, near);
            self.refund(clock, far);
        }
        reason
    }

    /// A parent, if there is one and it has its bucket; `other` stands for its numbers where not.
    #[inline(always)]
    fn parent<'a>(&self, parent: Parent, other: &'a Policy) -> Limit<'a> {
        if parent.scope == 0 {
            return Limit { bucket: None, policy: other };
        }
        let bucket = cache::find(&self.source.parent(parent, self.interface));
        match POLICIES.get(u32::from(parent.policy)) {
            Some(policy) => Limit { bucket, policy },
            None => Limit { bucket: None, policy: other },
        }
    }

    /// Whether a parent has its bucket, or may have one. It has no policy to resolve: its key names it.
    #[inline(always)]
    fn ensures(&self, control: &Control, parent: Parent) -> bool {
        if parent.scope == 0 {
            return true;
        }
        let key = self.source.parent(parent, self.interface);
        create::ensure(&key, gcra::units(self.now), Resolution::NONE, control, self.tick)
    }

    /// Whether there is a parent that cannot be asked.
    #[inline(always)]
    fn is_missing(&self, parent: Parent, limit: Limit<'_>) -> bool {
        parent.scope != 0 && limit.bucket.is_none()
    }

    #[inline(always)]
    fn refusal(&self, clock: &Clock<'_>, Limit { bucket, policy }: Limit<'_>) -> Option<Reason> {
        bucket?.refusal(policy, clock, self.amounts(policy))
    }

    #[inline(always)]
    fn charge(&self, clock: &Clock<'_>, Limit { bucket, policy }: Limit<'_>) -> Reason {
        let Some(bucket) = bucket else { return Reason::WithinLimit };
        bucket.charge(policy, clock, self.amounts(policy), charge_apart)
    }

    #[inline(always)]
    fn refund(&self, clock: &Clock<'_>, Limit { bucket, policy }: Limit<'_>) {
        if let Some(bucket) = bucket {
            bucket.refund(policy, clock, self.amounts(policy));
        }
    }
}
