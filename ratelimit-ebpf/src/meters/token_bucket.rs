//! Limits by token bucket, or leaky bucket, which is the same as a meter: the generic cell rate algorithm. First the two
//! limits of a policy, then one of them.

use ratelimit_common::{
    limits::policy::Policy,
    maps::control::Control,
    meters::{
        gcra::{Answer, MAX_DEBT, SLACK, Units},
        meter::Meter,
        state,
    },
    reason::Reason,
};

use crate::{
    bpf::{atomic::Word, clock::Clock, verifier::given},
    maps::{
        buckets::Bucket,
        exchange::{self, Addition, Charge, TRIES, undo},
    },
};

/// Checks a packet that counts as `amounts` against both limits, and charges it if it passes. Returns the charged states.
///
/// # Errors
///
/// Returns the reason of a refusal.
#[inline(always)]
pub fn ask(bucket: &Bucket, policy: &Policy, clock: &Clock<'_>, amounts: [u32; 2]) -> Result<[u64; 2], Reason> {
    // Both limits are checked before either is charged, so a refusal by one never spends the other.
    let second = &policy.second;
    let both = second.is_on() && policy.packets.is_on();
    if both && peek(&bucket.second, second, clock, second.cost_of(amounts[1])) == Charge::Refused {
        return Err(policy.second_reason());
    }
    charge_with(bucket, policy, clock, amounts, charge)
}

/// Returns the reason for which the limits refuse a packet, if they do. Nothing is charged.
#[inline(always)]
pub fn refusal(bucket: &Bucket, policy: &Policy, clock: &Clock<'_>, [one, amount]: [u32; 2]) -> Option<Reason> {
    let Policy { packets, second, .. } = policy;
    if packets.is_on() && peek(&bucket.packets, packets, clock, packets.cost_of(one)) == Charge::Refused {
        return Some(Reason::OverPackets);
    }
    let is_over = second.is_on() && peek(&bucket.second, second, clock, second.cost_of(amount)) == Charge::Refused;
    is_over.then_some(policy.second_reason())
}

/// Checks and charges both limits with [`charge`] or [`charge_globally`]. If
/// another CPU takes the second limit first, the charge of the first is given back. Returns the charged states.
///
/// # Errors
///
/// Returns the reason of a refusal.
#[inline(always)]
pub fn charge_with<'a>(
    bucket: &Bucket,
    policy: &Policy,
    clock: &Clock<'a>,
    [one, amount]: [u32; 2],
    charge: impl Fn(&Word, &Meter, &Clock<'a>, Units) -> Option<u64>,
) -> Result<[u64; 2], Reason> {
    let Policy { packets, second, .. } = policy;
    let packet_cost = packets.cost_of(one);
    exchange::charge_both(
        policy,
        [packets.is_on(), second.is_on()],
        || charge(&bucket.packets, packets, clock, packet_cost),
        || charge(&bucket.second, second, clock, second.cost_of(amount)),
        |charged| undo(&bucket.packets, charged, packet_cost),
    )
}

/// Result of a refusal where a state is returned otherwise. No state of a limit in units of time is odd.
pub const REFUSED: u64 = 1;

/// Checks whether a cost fits, without a charge.
#[inline(always)]
pub fn peek(state: &Word, meter: &Meter, clock: &Clock<'_>, cost: Units) -> Charge {
    match next(state, state.load(), meter, clock, cost) {
        Some(_) => Charge::Paid,
        None => Charge::Refused,
    }
}

/// Returns the state after a packet of this cost, if it fits.
#[inline(always)]
fn next(state: &Word, seen: u64, meter: &Meter, clock: &Clock<'_>, cost: Units) -> Option<u64> {
    match meter.ask(seen, clock.units(), cost) {
        Answer::Admit(next) => Some(next),
        Answer::Refuse => None,
        Answer::Cap(_) => {
            cap(state, meter, clock, meter.ceiling);
            None
        }
    }
}

/// Checks whether a cost fits and charges it in one step, however many CPUs do the same. Returns the charged state.
#[inline(always)]
pub fn charge(state: &Word, meter: &Meter, clock: &Clock<'_>, cost: Units) -> Option<u64> {
    let seen = state.load();
    let next = next(state, seen, meter, clock, cost)?;
    // Most packets need only this, without a call.
    if state.compare_exchange(seen, next).is_ok() { Some(next) } else { charge_globally(state, meter, clock, cost) }
}

/// Charges like [`charge`], all in a [global function](crate::bpf::verifier).
#[inline(always)]
pub fn charge_globally(state: &Word, meter: &Meter, clock: &Clock<'_>, cost: Units) -> Option<u64> {
    charged(charge_state(state, meter, clock.control(), clock.now(), cost))
}

#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[inline(never)]
fn charge_state(state: *const Word, meter: *const Meter, control: *const Control, now: u64, cost: Units) -> u64 {
    let (Some(state), Some(meter), Some(control)) = (given(state), given(meter), given(control)) else {
        return REFUSED;
    };
    let clock = Clock::of(control, now);
    let next = |seen| next(state, seen, meter, &clock, cost);
    exchange::charge::<TRIES>(state, addition(meter, cost), next).unwrap_or(REFUSED)
}

/// Returns the amounts that an addition may add to the state of a bucket: the cost, and the time since the state was
/// brought up to now.
#[inline(always)]
#[must_use]
pub fn addition(meter: &Meter, cost: Units) -> Addition {
    Addition::within(MAX_DEBT.saturating_sub(meter.ceiling + SLACK), cost)
}

/// Returns the state that a global function has charged.
#[inline(always)]
#[must_use]
pub fn charged(state: u64) -> Option<u64> {
    (state != REFUSED).then_some(state)
}

/// Cuts a debt that this policy cannot have made down to `most`, for the packets to come.
///
/// The clock is read again after the state. The CPU that made the debt cannot have read a later time, so a debt of this
/// policy is never taken for one of an older policy. Charges of packets that were refused in the end may be cut too.
#[inline(never)]
pub fn cap(word: &Word, meter: &Meter, clock: &Clock<'_>, most: Units) {
    let (seen, now) = (word.load(), clock.read_again());
    if state::debt(seen, now) > meter.ceiling + SLACK {
        // If another CPU is first, the next packet finds the same debt.
        let _ = word.compare_exchange(seen, now.wrapping_add(most));
    }
}
