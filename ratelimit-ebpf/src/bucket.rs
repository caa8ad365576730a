//! A source's own bucket: its limits and what it has counted.

use ratelimit_common::{
    bucket::{Bucket, IN_SHADOW, Resolution},
    gcra::Units,
    policy::{Meter, Policy, SHADOW},
    reason::Reason,
};

use crate::{
    atomic::Word,
    charge::{Charge, charge, peek, refund},
    clock::Clock,
    settings,
};

/// A [`Bucket`] as the CPUs share it.
#[repr(C)]
pub struct Tracked {
    /// State of the packet limit.
    pub packets: Word,
    /// State of the second limit, of bytes or packets.
    pub second: Word,
    /// See [`ratelimit_common::bucket::Resolution`].
    pub resolution: Word,
    /// What passed, as far as it is counted.
    pub passed_packets: Word,
    /// Bytes of that.
    pub passed_bytes: Word,
    dropped_packets: Word,
    dropped_bytes: Word,
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
            passed_packets: Word::new(0),
            passed_bytes: Word::new(0),
            dropped_packets: Word::new(0),
            dropped_bytes: Word::new(0),
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

    /// Asks the buckets of `policy` and charges them, by [`charge`] or [`charge_apart`](crate::charge::charge_apart). What was charged
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
        if packets.is_on() {
            match charge(&self.packets, packets, clock, packet_cost) {
                Charge::Paid => {}
                Charge::Refused => return Reason::OverPackets,
                Charge::Contended => return Reason::Contended,
            }
        }
        if second.is_on() {
            let outcome = charge(&self.second, second, clock, second.cost_of(amount));
            if outcome != Charge::Paid && packets.is_on() {
                refund(&self.packets, clock.units(), packet_cost);
            }
            match outcome {
                Charge::Paid => {}
                Charge::Refused => return policy.second_reason(),
                Charge::Contended => return Reason::Contended,
            }
        }
        Reason::WithinLimit
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

    /// Counts what passed.
    #[inline(always)]
    pub fn count_passed(&self, packets: u64, bytes: u64) {
        self.passed_packets.add(packets);
        self.passed_bytes.add(bytes);
    }

    /// [`IN_SHADOW`] where what this action refuses passes.
    #[inline(always)]
    fn mark(action: u8) -> u64 {
        let by_limit = settings::is_on(&settings::ACTIONS_ON) && action == SHADOW;
        if by_limit || settings::is_on(&settings::SHADOW_ON) { IN_SHADOW } else { 0 }
    }

    /// Whether what this action has refused can be added to what was counted before.
    #[inline(always)]
    pub fn can_count(&self, action: u8) -> bool {
        let before = self.dropped_packets.load();
        before == 0 || (before ^ Self::mark(action)) & IN_SHADOW == 0
    }

    /// Counts what was dropped, or would have been by this [action](Policy::over_limit). Either begins anew after the other.
    #[inline(always)]
    pub fn count_dropped(&self, action: u8, packets: u64, bytes: u64) {
        let mark = Self::mark(action);
        if (self.dropped_packets.load() ^ mark) & IN_SHADOW != 0 {
            self.dropped_packets.store(mark);
            self.dropped_bytes.store(0);
        }
        self.dropped_packets.add(packets);
        self.dropped_bytes.add(bytes);
    }

    /// The policy that was resolved.
    #[inline(always)]
    pub fn resolved(&self) -> Resolution {
        Resolution(self.resolution.load())
    }
}
