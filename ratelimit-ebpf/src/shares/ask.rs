//! Checks and charges the lease of a source.

use ratelimit_common::{
    fleet::lease,
    limits::policy::Policy,
    maps::control::Control,
    meters::{
        gcra::{self, Answer, Units},
        meter::Meter,
        state,
    },
};

use crate::{
    bpf::{atomic::Word, clock::Clock, settings, verifier::given},
    maps::{
        exchange::exchange,
        leases::{self, Lease},
    },
    packet::context::Context,
    shares::find,
};

/// Number of tries of a charge. A packet that loses all is refused.
const TRIES: u32 = 4;

/// Returns whether the lease of the context's source has no room for the packet. Reads the clock that the policy needs.
///
/// Where exceeding the own limit leads to a ban, that limit is asked first. Otherwise a lease would prevent bans.
#[inline(always)]
#[must_use]
pub fn refuses(context: &mut Context, control: &Control, policy: &Policy) -> bool {
    if !may_have_one(context) || policy.ban.time != 0 {
        return false;
    }
    context.set_clock(control, policy);
    ask_lease(context, control, false)
}

/// Charges the lease with a packet that all other limits have admitted. Returns whether it refuses the packet.
#[inline(always)]
#[must_use]
pub fn charge(context: &Context, control: &Control) -> bool {
    may_have_one(context) && ask_lease(context, control, true)
}

#[inline(always)]
fn may_have_one(context: &Context) -> bool {
    settings::has_leases() && leases::may_have(context.hash)
}

/// Returns whether the lease refuses the packet. Charges it if `is_charging`.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn ask_lease(context: *const Context, control: *const Control, is_charging: bool) -> bool {
    if !settings::has_leases() {
        return false;
    }
    let (Some(context), Some(control)) = (given(context), given(control)) else { return false };
    let (Some(policy), Some(lease)) = (context.policy(), find::of(context, control)) else { return false };
    let (Policy { packets, second, .. }, [one, amount]) = (policy, context.amounts(policy));
    let (one, amount) = (packets.cost_of(one), second.cost_of(amount));
    let clock = context.clock(control);
    // The whole limit is left, so only the limit itself refuses.
    let is_whole = lease.multiplier.load() <= lease::WHOLE;
    if !is_charging {
        let has_room = || {
            has_room(&lease.packets, packets, one, lease, &clock)
                && has_room(&lease.second, second, amount, lease, &clock)
        };
        return !is_whole && !has_room();
    }
    let is_paid = pay(&lease.packets, packets, one, lease, &clock) && pay(&lease.second, second, amount, lease, &clock);
    if !is_paid && !is_whole {
        return true;
    }
    lease.admitted.add(if one > amount { one } else { amount });
    false
}

/// Asks for a cost that the lease multiplies. A debt that packets cannot have made under this multiplier is cut.
#[inline(always)]
fn ask(seen: u64, meter: &Meter, cost: Units, lease: &Lease, now: Units) -> Answer {
    let multiplier = lease.multiplier.load();
    let (cost, largest) = (lease::multiplied(cost, multiplier), lease::multiplied(meter.ceiling, multiplier));
    let ceiling = if largest > meter.burst { largest } else { meter.burst };
    gcra::ask_owing(state::debt(seen, now), now, cost, meter.burst, ceiling)
}

/// Returns whether a limit has room.
#[inline(always)]
fn has_room(word: &Word, meter: &Meter, cost: Units, lease: &Lease, clock: &Clock<'_>) -> bool {
    if !meter.is_on() {
        return true;
    }
    let seen = word.load();
    match ask(seen, meter, cost, lease, clock.units()) {
        Answer::Admit(_) => true,
        Answer::Refuse => false,
        Answer::Cap(next) => {
            // If another CPU is first, the next packet finds the same debt.
            let _ = word.compare_exchange(seen, next);
            false
        }
    }
}

#[inline(always)]
fn pay(word: &Word, meter: &Meter, cost: Units, lease: &Lease, clock: &Clock<'_>) -> bool {
    if !meter.is_on() {
        return true;
    }
    let (now, mut is_admitted) = (clock.units(), false);
    let is_written = exchange::<TRIES>(word, |seen| {
        let answer = ask(seen, meter, cost, lease, now);
        is_admitted = matches!(answer, Answer::Admit(_));
        match answer {
            Answer::Admit(next) | Answer::Cap(next) => Some(next),
            Answer::Refuse => None,
        }
    });
    is_written && is_admitted
}
