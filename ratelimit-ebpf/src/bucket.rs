//! A source's own bucket: its limits and what it has counted.

use ratelimit_common::{
    bucket::{Bucket, Resolution},
    gcra::Units,
    policy::{self, Meter, Policy},
    reason::Reason,
};

use crate::{
    atomic::Word,
    charge::{Charge, charge, peek, refund},
    clock::Clock,
};

/// A [`Bucket`] as the CPUs share it.
#[repr(C)]
pub struct Tracked {
    /// State of the packet limit.
    pub packets: Word,
    /// State of the byte limit.
    pub bytes: Word,
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
    pub const fn new(packets: u64, bytes: u64, resolution: u64) -> Self {
        Self {
            packets: Word::new(packets),
            bytes: Word::new(bytes),
            resolution: Word::new(resolution),
            passed_packets: Word::new(0),
            passed_bytes: Word::new(0),
            dropped_packets: Word::new(0),
            dropped_bytes: Word::new(0),
        }
    }

    /// What `policy` says to a packet of `length` bytes, which is charged if it passes.
    #[inline(always)]
    pub fn ask(&self, policy: &Policy, clock: &Clock<'_>, length: u32) -> Reason {
        match policy.kind {
            policy::LIMIT => {
                // Both limits are asked before either is charged: a refusal by one never spends what the other has.
                let bytes = &policy.bytes;
                let both = bytes.is_on() && policy.packets.is_on();
                if both && peek(&self.bytes, bytes, clock, bytes.cost_of(length)) == Charge::Refused {
                    return Reason::OverBytes;
                }
                self.charge(policy, clock, length, charge)
            }
            policy::ALLOW => Reason::Allowed,
            policy::DENY => Reason::Denied,
            policy::BAN => Reason::Banned,
            _ => Reason::NoState,
        }
    }

    /// Why the limits of `policy` refuse a packet of `length` bytes, if they do. Nothing is charged.
    #[inline(always)]
    pub fn refusal(&self, Policy { packets, bytes, .. }: &Policy, clock: &Clock<'_>, length: u32) -> Option<Reason> {
        if packets.is_on() && peek(&self.packets, packets, clock, packets.cost_of(1)) == Charge::Refused {
            return Some(Reason::OverPackets);
        }
        let is_over = bytes.is_on() && peek(&self.bytes, bytes, clock, bytes.cost_of(length)) == Charge::Refused;
        is_over.then_some(Reason::OverBytes)
    }

    /// Asks the limits of `policy` and charges them, by [`charge`] or [`charge_apart`](crate::charge::charge_apart). What was charged
    /// is given back if the other limit is lost to another CPU after all.
    #[inline(always)]
    pub fn charge<'a>(
        &self,
        Policy { packets, bytes, .. }: &Policy,
        clock: &Clock<'a>,
        length: u32,
        charge: impl Fn(&Word, &Meter, &Clock<'a>, Units) -> Charge,
    ) -> Reason {
        let packet_cost = packets.cost_of(1);
        if packets.is_on() {
            match charge(&self.packets, packets, clock, packet_cost) {
                Charge::Paid => {}
                Charge::Refused => return Reason::OverPackets,
                Charge::Contended => return Reason::Contended,
            }
        }
        if bytes.is_on() {
            let outcome = charge(&self.bytes, bytes, clock, bytes.cost_of(length));
            if outcome != Charge::Paid && packets.is_on() {
                refund(&self.packets, clock.units(), packet_cost);
            }
            match outcome {
                Charge::Paid => {}
                Charge::Refused => return Reason::OverBytes,
                Charge::Contended => return Reason::Contended,
            }
        }
        Reason::WithinLimit
    }

    /// Gives back what [`Self::charge`] has charged.
    #[inline(always)]
    pub fn refund(&self, Policy { packets, bytes, .. }: &Policy, clock: &Clock<'_>, length: u32) {
        if packets.is_on() {
            refund(&self.packets, clock.units(), packets.cost_of(1));
        }
        if bytes.is_on() {
            refund(&self.bytes, clock.units(), bytes.cost_of(length));
        }
    }

    /// Counts one packet of `length` bytes.
    #[inline(always)]
    pub fn count(&self, passes: bool, length: u32) {
        if passes { self.count_passed(1, u64::from(length)) } else { self.count_dropped(1, u64::from(length)) }
    }

    /// Counts what passed.
    #[inline(always)]
    pub fn count_passed(&self, packets: u64, bytes: u64) {
        self.passed_packets.add(packets);
        self.passed_bytes.add(bytes);
    }

    /// Counts what was dropped.
    #[inline(always)]
    pub fn count_dropped(&self, packets: u64, bytes: u64) {
        self.dropped_packets.add(packets);
        self.dropped_bytes.add(bytes);
    }

    /// The policy that was resolved.
    #[inline(always)]
    pub fn resolved(&self) -> Resolution {
        Resolution(self.resolution.load())
    }
}
