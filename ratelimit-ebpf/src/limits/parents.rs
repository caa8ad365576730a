//! Parents: the wider limits above a source's own, each with one state for many sources.
//!
//! All parents are checked before the source's own limit is charged, and charged after it, the narrower one first. If
//! another CPU takes the last room in between, the other charges are given back. If yet another CPU has charged one of
//! them meanwhile, that charge stays. So such a race spends limits of the same source and its neighbours, and never
//! wider ones.
//!
//! If the budget admits no bucket for a parent without room in its levels, the packet is dropped as *not-admitted*,
//! like that of a source. If the map refuses the bucket, the packet passes as *table-full*.
//!
//! A changed parent is another policy, so it has another state, which is full of tokens.

use ratelimit_common::{limits::policy::Policy, maps::control::Control, meters::gcra::Units, reason::Reason};

use crate::{
    limits::further::{
        charge, check,
        limit::{FAR, NEAR},
    },
    packet::context::Context,
};

/// Returns the reason for which a parent refuses a packet, or [`Reason::WithinLimit`]. Nothing is charged.
#[inline(always)]
#[must_use]
pub fn check(context: &Context, control: &Control, policy: &Policy) -> Reason {
    of_both(context, policy, |which| check::check(context, control, which, context.now))
}

/// Charges the parents with a packet that the source's own limit has admitted. Returns the reason of its verdict.
#[inline(always)]
#[must_use]
pub fn charge(context: &Context, control: &Control, policy: &Policy) -> Reason {
    let [near, far] = policy.parents(context.source.family);
    let mut reason = Reason::WithinLimit;
    if near.scope != 0 {
        reason = over_parent(charge::charge(context, control, NEAR, context.now));
    }
    if far.scope != 0 && reason.passes() {
        let by_far = over_parent(charge::charge(context, control, FAR, context.now));
        if !by_far.passes() && near.scope != 0 && reason == Reason::WithinLimit {
            charge::refund(context, control, context.now);
        }
        if by_far != Reason::WithinLimit {
            reason = by_far;
        }
    }
    reason
}

/// Returns the time for which the parents still refuse packets like this one, and whether a limit of bytes does.
#[inline(always)]
#[must_use]
pub fn wait(context: &Context, control: &Control, policy: &Policy) -> (Units, bool) {
    let mut longest = (0, false);
    for_each(context, policy, |which| {
        let found = check::wait(context, control, which, context.now);
        if found.0 > longest.0 {
            longest = found;
        }
    });
    longest
}

/// Asks the parents until one refuses.
#[inline(always)]
fn of_both(context: &Context, policy: &Policy, ask: impl Fn(u32) -> Reason) -> Reason {
    let mut reason = Reason::WithinLimit;
    for_each(context, policy, |which| {
        if reason.passes() {
            let by_this = over_parent(ask(which));
            if by_this != Reason::WithinLimit {
                reason = by_this;
            }
        }
    });
    reason
}

/// Returns the reason of a packet that a parent refuses.
#[inline(always)]
fn over_parent(reason: Reason) -> Reason {
    if matches!(reason, Reason::OverPackets | Reason::OverBytes) { Reason::OverParent } else { reason }
}

/// Calls `look` for each parent. This is no loop, because Linux 6.1 takes some loops with calls for endless.
#[inline(always)]
fn for_each(context: &Context, policy: &Policy, mut look: impl FnMut(u32)) {
    let [near, far] = policy.parents(context.source.family);
    if near.scope != 0 {
        look(NEAR);
    }
    if far.scope != 0 {
        look(FAR);
    }
}
