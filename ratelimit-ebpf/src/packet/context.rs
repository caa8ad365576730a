//! A packet with all that is known of it by the time it is judged.

use ratelimit_common::{
    buckets::bucket::Resolution, identity::source::Source, limits::policy::Policy, maps::control::Control,
    reason::Reason,
};

use crate::{bpf::clock::Clock, maps::all::POLICIES, rules::cost};

/// One packet. No pointers, so that functions which the verifier checks apart can be handed it.
#[repr(C)]
pub struct Visit {
    /// The source that is billed.
    pub source: Source,
    /// Its hash, by which its cell is found, if there are cells.
    pub hash: u64,
    /// Nanoseconds when the packet came, by the policy's clock.
    pub now: u64,
    /// The hash by which its note is found: that of its narrowest service, whichever is billed.
    pub note_hash: u64,
    /// The same time by the coarse clock, which all budgets go by: two clocks would give back what was spent.
    pub tick: u64,
    /// Its policy, and how long that holds.
    pub resolution: Resolution,
    /// What its limits have said so far.
    pub reason: Reason,
    /// Bytes of its frame, and in the highest byte what it counts as in limits of packets.
    sizes: u32,
    /// Index of the interface that it came in by, where parents or capacities need it.
    pub interface: u32,
}

const COST_SHIFT: u32 = 24;

impl Visit {
    /// A packet that came at `now` by the coarse clock, and of whose policy nothing is known yet.
    #[inline(always)]
    #[must_use]
    pub fn new(source: Source, now: u64, [length, cost]: [u32; 2], interface: u32) -> Self {
        let (resolution, sizes, reason) = (Resolution::NOTHING, length | cost << COST_SHIFT, Reason::WithinLimit);
        Self { source, hash: 0, now, note_hash: 0, tick: now, resolution, reason, sizes, interface }
    }

    /// The policy.
    #[inline(always)]
    #[must_use]
    pub fn policy(&self) -> Option<&'static Policy> {
        POLICIES.get(self.resolution.policy())
    }

    /// What it counts as in the limits of a policy.
    #[inline(always)]
    #[must_use]
    pub fn amounts(&self, policy: &Policy) -> [u32; 2] {
        let cost = self.cost();
        [cost, policy.second_amount(self.length(), cost)]
    }

    /// The same for how long its refusal lasts: of each limit, what every packet counts as at least that a note of this refusal is about. One that
    /// is as long may cost less, and one that costs as much may be shorter.
    #[inline(always)]
    #[must_use]
    pub fn amounts_refused(&self, policy: &Policy) -> [u32; 2] {
        let amounts = self.amounts(policy);
        match policy.second_reason() {
            Reason::OverBytes if self.reason != Reason::OverBytes => [amounts[0], 0],
            Reason::OverBytes if cost::are_on() => [0, amounts[1]],
            _ => amounts,
        }
    }

    /// What it counts as in limits of packets.
    #[inline(always)]
    #[must_use]
    pub fn cost(&self) -> u32 {
        if cost::are_on() { self.sizes >> COST_SHIFT } else { 1 }
    }

    /// Bytes of its frame.
    #[inline(always)]
    #[must_use]
    pub fn length(&self) -> u32 {
        self.sizes & ((1 << COST_SHIFT) - 1)
    }

    /// The clock.
    #[inline(always)]
    #[must_use]
    pub fn clock<'a>(&self, control: &'a Control) -> Clock<'a> {
        Clock::of(control, self.now)
    }
}
