//! The two limits of a source's own bucket, by token bucket or leaky bucket.

use ratelimit_common::{
    limits::policy::Policy,
    meters::{gcra::Units, meter::Meter},
    reason::Reason,
};

use crate::{
    bpf::{atomic::Word, clock::Clock},
    maps::{
        buckets::Bucket,
        exchange::{Charge, undo},
    },
    meters::{
        gcra::{charge, peek},
        two_limits,
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

/// Checks and charges both limits with [`charge`] or [`charge_globally`](crate::meters::gcra::charge_globally). If
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
    two_limits::charge(
        policy,
        [packets.is_on(), second.is_on()],
        || charge(&bucket.packets, packets, clock, packet_cost),
        || charge(&bucket.second, second, clock, second.cost_of(amount)),
        |charged| undo(&bucket.packets, charged, packet_cost),
    )
}
