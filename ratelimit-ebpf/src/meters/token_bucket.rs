//! A source's own bucket: its limits and what it has counted.

use ratelimit_common::{
    buckets::bucket::{Bucket, Resolution},
    limits::policy::{Meter, Policy},
    meters::gcra::Units,
    reason::Reason,
};

use crate::{
    bpf::{atomic::Word, clock::Clock},
    maps::counts::Counts,
    meters::{
        charge::{Charge, charge, peek, refund},
        two_limits,
    },
};

/// A [`Bucket`] as the CPUs share it.
#[repr(C)]
pub struct Tracked {
    /// State of the packet limit.
    pub packets: Word,
    /// State of the second limit, of bytes or packets.
    pub second: Word,
    /// See [`ratelimit_common::buckets::bucket::Resolution`].
    pub resolution: Word,
    /// What it has counted.
    pub counts: Counts,
}
const _: () = assert!(size_of::<Tracked>() == size_of::<Bucket>());

impl Tracked {
    /// A new bucket in these states.
    #[inline(always)]
    #[must_use]
    pub const fn new(packets: u64, second: u64, resolution: u64) -> Self {
        Self {
            packets: Word::new(packets),
            second: Word::new(second),
            resolution: Word::new(resolution),
            counts: Counts::nothing(),
        }
    }

    /// What the buckets of `policy` say to a packet that counts as so much in either, and is charged if it passes.
    #[inline(always)]
    pub fn ask(&self, policy: &Policy, clock: &Clock<'_>, amounts: [u32; 2]) -> Reason {
        // Both limits are asked before either is charged: a refusal by one never spends what the other has.
        let second = &policy.second;
        let both = second.is_on() && policy.packets.is_on();
        if both && peek(&self.second, second, clock, second.cost_of(amounts[1])) == Charge::Refused {
            return policy.second_reason();
        }
        self.charge(policy, clock, amounts, charge)
    }

    /// Why the buckets of `policy` refuse a packet, if they do. Nothing is charged.
    #[inline(always)]
    pub fn refusal(&self, policy: &Policy, clock: &Clock<'_>, [one, amount]: [u32; 2]) -> Option<Reason> {
        let Policy { packets, second, .. } = policy;
        if packets.is_on() && peek(&self.packets, packets, clock, packets.cost_of(one)) == Charge::Refused {
            return Some(Reason::OverPackets);
        }
        let is_over = second.is_on() && peek(&self.second, second, clock, second.cost_of(amount)) == Charge::Refused;
        is_over.then_some(policy.second_reason())
    }

    /// Asks the buckets of `policy` and charges them, by [`charge`] or [`charge_apart`](crate::meters::charge::charge_apart). What was charged
    /// is given back if the other limit is lost to another CPU after all.
    #[inline(always)]
    pub fn charge<'a>(
        &self,
        policy: &Policy,
        clock: &Clock<'a>,
        [one, amount]: [u32; 2],
        charge: impl Fn(&Word, &Meter, &Clock<'a>, Units) -> Charge,
    ) -> Reason {
        let Policy { packets, second, .. } = policy;
        let packet_cost = packets.cost_of(one);
        two_limits::charge(
            policy,
            [packets.is_on(), second.is_on()],
            || charge(&self.packets, packets, clock, packet_cost),
            || charge(&self.second, second, clock, second.cost_of(amount)),
            || refund(&self.packets, clock.units(), packet_cost),
        )
    }

    /// Gives back what [`Self::charge`] has charged.
    #[inline(always)]
    pub fn refund(&self, Policy { packets, second, .. }: &Policy, clock: &Clock<'_>, [one, amount]: [u32; 2]) {
        if packets.is_on() {
            refund(&self.packets, clock.units(), packets.cost_of(one));
        }
        if second.is_on() {
            refund(&self.second, clock.units(), second.cost_of(amount));
        }
    }

    /// The policy that was resolved.
    #[inline(always)]
    pub fn resolved(&self) -> Resolution {
        Resolution(self.resolution.load())
    }
}
