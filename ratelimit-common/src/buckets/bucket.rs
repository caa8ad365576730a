//! The bucket of a source, and its cached resolution.

use super::seen::{self, SAMPLED};
use crate::{boundary, identity::class::Class, limits::policy::PolicyId, maps::names::POLICIES_MAX, reason::Count};

/// One entry of the map of buckets.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bucket {
    /// State of the packet limit. See [`crate::meters::state`].
    pub packets: u64,
    /// State of the limit of bytes, or of a second one of packets.
    pub second: u64,
    /// The policy that was resolved. See [`Resolution`].
    pub resolution: u64,
    /// Packets that passed, and when the source was [last seen](seen::last).
    pub(crate) passed: u64,
    /// Bytes that passed.
    pub passed_bytes: u64,
    /// Packets that were dropped, when the source was [first seen](seen::first), and [`SAMPLED`].
    pub(crate) dropped: u64,
    /// Bytes of the dropped packets.
    pub(crate) dropped_bytes: u64,
    /// Packets over a limit that have passed in [shadow](crate::limits::policy::SHADOW).
    pub(crate) would_drop: u64,
    /// Bytes of these.
    pub(crate) would_drop_bytes: u64,
}
boundary!(Bucket, size 72);

impl Bucket {
    /// Creates a bucket that only counts packets: those that passed, that were dropped, and that passed in shadow.
    #[must_use]
    pub fn counting([passed, dropped, would_drop]: [u64; 3]) -> Self {
        Self { passed, dropped, would_drop, ..Self::default() }
    }

    /// Creates a bucket in these states of both limits that has counted nothing. Its policy is not resolved yet.
    #[must_use]
    pub fn in_states([packets, second]: [u64; 2]) -> Self {
        Self { packets, second, ..Self::default() }
    }

    /// Returns the packets that passed.
    #[must_use]
    pub const fn passed(&self) -> u64 {
        seen::count(self.passed)
    }

    /// Returns what was dropped.
    #[must_use]
    pub const fn dropped(&self) -> Count {
        Count { packets: seen::count(self.dropped), bytes: self.dropped_bytes }
    }

    /// Returns what was over a limit and has passed in shadow.
    #[must_use]
    pub const fn would_drop(&self) -> Count {
        Count { packets: self.would_drop, bytes: self.would_drop_bytes }
    }

    /// Returns the packets that were dropped, or have passed in shadow.
    #[must_use]
    pub const fn over_limit(&self) -> u64 {
        seen::count(self.dropped).saturating_add(self.would_drop)
    }

    /// Returns whether these were counted by [samples](crate::cells::refused_sample).
    #[must_use]
    pub const fn is_sampled(&self) -> bool {
        self.dropped & SAMPLED != 0
    }

    /// Returns a bucket of layout 18 with both counts. Its one count had a mark, in place of [`SAMPLED`], if the packets
    /// have passed in shadow.
    #[must_use]
    pub const fn with_shadow_apart(self) -> Self {
        if self.dropped & SAMPLED == 0 {
            return self;
        }
        let Count { packets, bytes } = self.dropped();
        let dropped = seen::with_count(self.dropped, 0) & !SAMPLED;
        Self { dropped, dropped_bytes: 0, would_drop: packets, would_drop_bytes: bytes, ..self }
    }

    /// Adds what the sliding log of the source has counted.
    pub fn add_log(&mut self, log: &Self) {
        let sum = |count: u64, other| seen::with_count(count, seen::count(count).saturating_add(other));
        self.passed = sum(self.passed, log.passed());
        self.dropped = sum(self.dropped, log.dropped().packets) | log.dropped & SAMPLED;
        self.would_drop = self.would_drop.saturating_add(log.would_drop);
        for (bytes, more) in [
            (&mut self.passed_bytes, log.passed_bytes),
            (&mut self.dropped_bytes, log.dropped_bytes),
            (&mut self.would_drop_bytes, log.would_drop_bytes),
        ] {
            *bytes = bytes.saturating_add(more);
        }
        self.merge_times(log);
    }

    /// Takes over the last time of another bucket of the source if it is later, and its first time if none is known.
    fn merge_times(&mut self, other: &Self) {
        self.dropped = seen::with_first(self.dropped, other.dropped);
        if seen::is_later(other.passed, self.passed) {
            self.passed = seen::with_count(other.passed, self.passed());
        }
    }

    /// Returns how long ago the source was first seen, in nanoseconds. None if it is unknown.
    #[must_use]
    pub const fn since_first(&self, now: u64) -> Option<u64> {
        seen::since_first(self.dropped, now)
    }

    /// Returns a number that another bucket of the source does not have, unless it was created in the same minute.
    #[must_use]
    pub const fn creation(&self) -> u64 {
        seen::with_first(0, self.dropped)
    }

    /// Returns how long ago the source was last seen, in nanoseconds. None if it is unknown.
    #[must_use]
    pub const fn since_last(&self, now: u64) -> Option<u64> {
        seen::since_last(self.passed, now)
    }
}

/// The policy of a source and its validity, in one word, so that they change together.
///
/// From the top: 26 bits of the generation in which it was resolved, 12 of the policy or of the wider class that is
/// billed, 26 of the time at which a rule involved expires, in steps of 2³² ns (4.3 s): enough for nine years of
/// uptime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resolution(pub u64);

/// Bits of a generation of the rules that a resolution keeps.
pub const GENERATION_BITS: u32 = u64::BITS - POLICY_BITS - TIME_BITS;
const POLICY_BITS: u32 = 12;
const TIME_BITS: u32 = 26;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;
const POLICY_MASK: u64 = (1 << POLICY_BITS) - 1;
const STEP_BITS: u32 = 32;
/// Nanoseconds to a multiple of which [`Resolution::ends`] is rounded down.
pub const STEP: u64 = 1 << STEP_BITS;
const _: () = assert!(POLICIES_MAX as usize + crate::identity::class::CLASSES == 1 << POLICY_BITS);

impl Resolution {
    /// No resolution: never valid.
    pub const NONE: Self = Self(0);

    /// The resolution of a new bucket, in which a part of its source's debt may still be missing. Never valid.
    pub const NEW: Self = Self((POLICIES_MAX as u64 - 1) << TIME_BITS);

    /// A policy that is not in the map.
    pub const NOTHING: Self = Self(POLICY_MASK << TIME_BITS);

    /// Creates a resolution of this generation. `expires` is the time in nanoseconds at which a rule involved expires.
    #[inline(always)]
    #[must_use]
    pub const fn new(generation: u32, policy: PolicyId, expires: u64) -> Self {
        let steps = expires >> STEP_BITS;
        let steps = if steps < TIME_MASK { steps } else { TIME_MASK };
        let head = (generation as u64) << POLICY_BITS | policy as u64 & POLICY_MASK;
        Self(head << TIME_BITS | steps)
    }

    /// Returns 26 bits of the generation in which it was resolved.
    #[inline(always)]
    #[must_use]
    pub const fn generation(self) -> u32 {
        (self.0 >> (POLICY_BITS + TIME_BITS)) as u32
    }

    /// Returns the same resolution in another generation.
    #[inline(always)]
    #[must_use]
    pub const fn in_generation(self, generation: u32) -> Self {
        let rest = self.0 & ((1 << (POLICY_BITS + TIME_BITS)) - 1);
        Self((generation as u64) << (POLICY_BITS + TIME_BITS) | rest)
    }

    /// Returns the resolution of a class without a rule: another class is billed, as long as this is valid.
    #[inline(always)]
    #[must_use]
    pub const fn billed_to(self, class: Class) -> Self {
        let rest = self.0 & !(POLICY_MASK << TIME_BITS);
        Self(rest | (POLICIES_MAX as u64 + class as u64) << TIME_BITS)
    }

    /// Returns the class that is billed in place of this one.
    #[inline(always)]
    #[must_use]
    pub const fn billed(self) -> Option<Class> {
        match self.policy() {
            policy if policy >= POLICIES_MAX => Some((policy - POLICIES_MAX) as Class),
            _ => None,
        }
    }

    /// Returns whether it is valid: no rule has changed since, and no rule involved expires within the running step.
    #[inline(always)]
    #[must_use]
    pub const fn holds(self, generation: u32, now: u64) -> bool {
        let same_generation = self.0 >> (POLICY_BITS + TIME_BITS) == (generation as u64) << 38 >> 38;
        same_generation && now >> STEP_BITS < self.0 & TIME_MASK
    }

    /// Returns whether it was resolved before this generation. Half of the generations back, it would seem later.
    #[inline(always)]
    #[must_use]
    pub const fn is_before(self, generation: u32) -> bool {
        let ahead = generation.wrapping_sub(self.generation()) << (POLICY_BITS + TIME_BITS - u32::BITS);
        ahead.cast_signed() > 0
    }

    /// Returns the time in nanoseconds until which it is valid at least, if no rule changes: [`u64::MAX`] if it stays.
    #[inline(always)]
    #[must_use]
    pub const fn ends(self) -> u64 {
        match self.0 & TIME_MASK {
            TIME_MASK => u64::MAX,
            steps => steps << STEP_BITS,
        }
    }

    /// Returns the policy. It is not in the map if another class is [billed](Self::billed).
    #[inline(always)]
    #[must_use]
    pub const fn policy(self) -> PolicyId {
        (self.0 >> TIME_BITS & POLICY_MASK) as PolicyId
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::rule::NEVER;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_resolution_holds_in_its_generation_until_its_rule_expires(
            generation: u32, policy in 0..POLICIES_MAX, class: u8, expires in 0u64..1 << 58, now in 0u64..1 << 57,
        ) {
            let resolution = Resolution::new(generation, policy, expires);
            prop_assert_eq!((resolution.policy(), resolution.billed()), (policy, None));
            let billed = resolution.billed_to(class);
            prop_assert_eq!(billed.billed(), Some(class));
            prop_assert_eq!(billed.holds(generation, now), resolution.holds(generation, now));
            prop_assert_eq!(resolution.in_generation(resolution.generation()), resolution);
            prop_assert_eq!(Resolution::new(7, policy, expires).in_generation(generation), resolution);
            prop_assert!(!resolution.holds(generation.wrapping_add(1), now));
            prop_assert!(!(now >= expires && resolution.holds(generation, now)));
            prop_assert!(now >= expires.saturating_sub(1 << 32) || resolution.holds(generation, now));
            prop_assert!(Resolution::new(generation, policy, NEVER).holds(generation, now));
        }

        #[test]
        fn a_resolution_is_before_later_generations_only(generation: u32, distance in 0u32..1 << 25) {
            let resolution = Resolution::new(generation, 7, NEVER);
            prop_assert_eq!(resolution.is_before(generation.wrapping_add(distance)), distance > 0);
            prop_assert!(!resolution.is_before(generation.wrapping_sub(distance)));
        }
    }

    #[test]
    fn the_one_count_of_layout_18_becomes_two() {
        let bytes =
            |dropped, would_drop| [Count { packets: 7, bytes: dropped }, Count { packets: 0, bytes: would_drop }];
        let first = seen::first(1 << 40);
        let dropped = Bucket { dropped: first | 7, dropped_bytes: 420, ..Bucket::default() }.with_shadow_apart();
        assert_eq!([dropped.dropped(), dropped.would_drop()], bytes(420, 0));
        let in_shadow = Bucket { dropped: first | SAMPLED | 7, dropped_bytes: 420, ..Bucket::default() };
        let apart = in_shadow.with_shadow_apart();
        assert_eq!([apart.would_drop(), apart.dropped()], bytes(420, 0));
        assert_eq!((apart.since_first(1 << 40), apart.is_sampled()), (dropped.since_first(1 << 40), false));
    }
}
