//! Parents: the wider limits above a source's own, each with one bucket for many sources.
//!
//! All limits are checked before any is charged. If another CPU takes one of them first, the other charges are given
//! back. So a refusal by one limit never spends another.
//!
//! A changed parent is another policy, so it has another bucket, which is full of tokens.

use ratelimit_common::{
    buckets::bucket::Resolution, identity::parent::Parent, limits::policy::Policy, maps::control::Control,
    meters::gcra, reason::Reason,
};

use crate::{
    bpf::clock::Clock,
    buckets::create,
    maps::{
        buckets::{self, Bucket},
        rules,
    },
    meters::{gcra::charge_globally, token_bucket},
    packet::context::Context,
};

/// A limit's state and its numbers. Without a state, the limit does not exist. The numbers are always there, since
/// Linux 6.1 refuses to copy memory that was never written.
#[derive(Clone, Copy)]
struct Limit<'a> {
    bucket: Option<&'a Bucket>,
    policy: &'a Policy,
}

/// The limits of a packet.
#[derive(Clone, Copy)]
struct Limits<'a> {
    own: Limit<'a>,
    near: Limit<'a>,
    far: Limit<'a>,
}

/// Writes the reason that the source's own limit and its parents give together into the context.
///
/// If the budget admits no bucket for one of them, the packet is dropped, since nothing tells whether that limit is
/// reached. If the map refuses the bucket, the packet passes the other limits as one that could not be decided.
#[inline(never)]
#[must_use]
pub fn ask(
    context: &mut Context,
    control: &Control,
    policy: &Policy,
    at_hand: Option<&'static Bucket>,
) -> Option<&'static Bucket> {
    context.reason = Reason::NotAdmitted;
    let [near, far] = *policy.parents(context.source.family);
    let has_own = at_hand.is_some()
        || create::ensure(&context.source, gcra::units(context.now), context.resolution, control, context.tick);
    if !has_own || !ensures(context, control, near) || !ensures(context, control, far) {
        return at_hand;
    }
    let own = at_hand.or_else(|| buckets::find(&context.source));
    let limits = Limits {
        own: Limit { bucket: own, policy },
        near: limit(context, near, policy),
        far: limit(context, far, policy),
    };
    let lacks = |parent: Parent, limit: Limit<'_>| parent.scope != 0 && limit.bucket.is_none();
    let is_missing = own.is_none() || lacks(near, limits.near) || lacks(far, limits.far);
    context.reason = decide(context, &context.clock(control), limits);
    if context.reason.passes() {
        if let Some(bucket) = own {
            bucket.counts.count_passed(1, u64::from(context.length()));
        }
        if is_missing && context.reason == Reason::WithinLimit {
            context.reason = Reason::TableFull;
        }
    }
    own
}

/// Checks all limits, then charges all.
#[inline(always)]
fn decide(context: &Context, clock: &Clock<'_>, Limits { own, near, far }: Limits<'_>) -> Reason {
    if let Some(refusal) = refusal(context, clock, own) {
        return refusal;
    }
    if refusal(context, clock, near).is_some() || refusal(context, clock, far).is_some() {
        return Reason::OverParent;
    }
    let Ok(by_near) = charge(context, clock, near) else { return Reason::OverParent };
    let Ok(by_far) = charge(context, clock, far) else {
        refund(context, near, by_near);
        return Reason::OverParent;
    };
    match charge(context, clock, own) {
        Ok(_) => Reason::WithinLimit,
        Err(reason) => {
            refund(context, near, by_near);
            refund(context, far, by_far);
            reason
        }
    }
}

/// Returns the limit of a parent with its bucket. `other` stands for its numbers if there is no such parent.
#[inline(always)]
fn limit<'a>(context: &Context, parent: Parent, other: &'a Policy) -> Limit<'a> {
    let none = Limit { bucket: None, policy: other };
    if parent.scope == 0 {
        return none;
    }
    let bucket = buckets::find(&context.source.parent(parent, context.interface));
    rules::policy(u32::from(parent.policy)).map_or(none, |policy| Limit { bucket, policy })
}

/// Returns whether a parent has its bucket, or the budget admits it. The bucket has no policy to resolve, since its key
/// names the policy.
#[inline(always)]
fn ensures(context: &Context, control: &Control, parent: Parent) -> bool {
    if parent.scope == 0 {
        return true;
    }
    let key = context.source.parent(parent, context.interface);
    create::ensure(&key, gcra::units(context.now), Resolution::NONE, control, context.tick)
}

#[inline(always)]
fn refusal(context: &Context, clock: &Clock<'_>, Limit { bucket, policy }: Limit<'_>) -> Option<Reason> {
    token_bucket::refusal(bucket?, policy, clock, context.amounts(policy))
}

/// Charges a limit and returns the charged states.
#[inline(always)]
fn charge(context: &Context, clock: &Clock<'_>, Limit { bucket, policy }: Limit<'_>) -> Result<[u64; 2], Reason> {
    let Some(bucket) = bucket else { return Ok([0; 2]) };
    token_bucket::charge_with(bucket, policy, clock, context.amounts(policy), charge_globally)
}

#[inline(always)]
fn refund(context: &Context, Limit { bucket, policy }: Limit<'_>, charged: [u64; 2]) {
    if let Some(bucket) = bucket {
        token_bucket::refund_both(bucket, policy, context.amounts(policy), charged);
    }
}
