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

/// What a lease says to a packet.
#[derive(Clone, Copy, PartialEq)]
#[repr(u32)]
enum Answer {
    /// The source has no lease, or the charge was given back.
    Nothing,
    /// The whole limit is left, so only the limit itself refuses. It is asked first.
    Whole,
    /// The lease is charged.
    Paid,
    /// The lease has no room.
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
    match ask_lease(context, control, false) {
        Answer::Nothing => {}
        Answer::Whole => context.note_share(Share::Later),
        Answer::Paid => context.note_share(Share::Paid),
        Answer::Refused => return true,
    }
    false
}

/// Charges the lease with a packet that all other limits have admitted, or gives back what a refused packet was charged.
/// Returns whether the lease refuses the packet.
#[inline(always)]
#[must_use]
pub fn refuses_at_last(context: &Context, control: &Control) -> bool {
    context.has_paid_share() != context.reason.passes() && ask_lease(context, control, true) == Answer::Refused
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn ask_lease(context: *const Context, control: *const Control, is_last: bool) -> Answer {
    if !settings::has_leases() {
        return Answer::Nothing;
    }
    let (Some(context), Some(control)) = (given(context), given(control)) else { return Answer::Nothing };
    let Some(lease) = find::of(context, control) else { return Answer::Nothing };
    let is_whole = lease.multiplier.load() <= lease::WHOLE;
    if is_whole && !is_last {
        return Answer::Whole;
    }
    let Some(policy) = context.policy() else { return Answer::Nothing };
    let (now, costs) = (context.clock(control).units(), costs(context, policy));
    if is_last && context.has_paid_share() {
        give_back(lease, policy, costs, now);
        lease.admitted.add(largest(costs).wrapping_neg());
        return Answer::Nothing;
    }
    if !pay(lease, policy, costs, now) && !is_whole {
        return Answer::Refused;
    }
    lease.admitted.add(largest(costs));
    Answer::Paid
}
