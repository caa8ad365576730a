//! Charges the lease of a source.

use ratelimit_common::{fleet::lease, limits::policy::Policy, maps::control::Control};

use crate::{
    bpf::{settings, verifier::given},
    packet::context::{Context, Share},
    shares::{
        charge::{costs, give_back, largest, pay},
        find,
    },
};

/// What a lease says to a packet, before other limits are asked.
#[derive(Clone, Copy, PartialEq)]
#[repr(u32)]
enum First {
    /// The source has none.
    NoLease,
    /// The whole limit is left, so only the limit itself refuses. It is asked first.
    Whole,
    /// It has room, and is charged.
    Paid,
    /// It has no room.
    Refused,
}

/// Charges the lease of the context's source, and notes that. Returns whether it has no room for the packet. Reads the
/// clock that the policy needs.
///
/// Where exceeding the own limit leads to a ban, that limit is asked first. Otherwise a lease would prevent bans.
#[inline(always)]
#[must_use]
pub fn refuses(context: &mut Context, control: &Control, policy: &Policy) -> bool {
    if policy.ban.time != 0 {
        context.note_share(Share::Later);
        return false;
    }
    context.set_clock(control, policy);
    match ask_lease(context, control) {
        First::NoLease => {}
        First::Whole => context.note_share(Share::Later),
        First::Paid => context.note_share(Share::Paid),
        First::Refused => return true,
    }
    false
}

/// Charges the lease with a packet that all other limits have admitted, or gives back what a refused packet was charged.
/// Returns whether the lease refuses the packet.
#[inline(always)]
#[must_use]
pub fn refuses_at_last(context: &Context, control: &Control) -> bool {
    match (context.has_paid_share(), context.reason.passes()) {
        (true, true) | (false, false) => false,
        _ => settle(context, control),
    }
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn ask_lease(context: *const Context, control: *const Control) -> First {
    if !settings::has_leases() {
        return First::NoLease;
    }
    let (Some(context), Some(control)) = (given(context), given(control)) else { return First::NoLease };
    let Some(lease) = find::of(context, control) else { return First::NoLease };
    if lease.multiplier.load() <= lease::WHOLE {
        return First::Whole;
    }
    let Some(policy) = context.policy() else { return First::NoLease };
    let costs = costs(context, policy);
    if !pay(lease, policy, costs, context.clock(control).units()) {
        return First::Refused;
    }
    lease.admitted.add(largest(costs));
    First::Paid
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn settle(context: *const Context, control: *const Control) -> bool {
    if !settings::has_leases() {
        return false;
    }
    let (Some(context), Some(control)) = (given(context), given(control)) else { return false };
    let (Some(policy), Some(lease)) = (context.policy(), find::of(context, control)) else { return false };
    let (now, costs) = (context.clock(control).units(), costs(context, policy));
    if context.has_paid_share() {
        give_back(lease, policy, costs, now);
        lease.admitted.add(largest(costs).wrapping_neg());
        return false;
    }
    // The whole limit is left, so only the limit itself refuses.
    if !pay(lease, policy, costs, now) && lease.multiplier.load() > lease::WHOLE {
        return true;
    }
    lease.admitted.add(largest(costs));
    false
}
