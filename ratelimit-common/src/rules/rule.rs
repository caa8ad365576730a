//! A rule: the policy of a source or a prefix, its origin and its end.

use crate::{boundary, limits::policy::PolicyId, maps::names::POLICIES_MAX};

/// [`Rule::expires`] of a rule that stays.
pub const NEVER: u64 = u64::MAX;

/// One entry of the rule maps.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Policy of every source that the rule matches.
    pub policy: PolicyId,
    /// Bits of the rule's prefix, which a lookup in a prefix map does not return.
    pub prefix: u8,
    /// Origin of the rule: [`COMMAND`], [`SSH`], [`BANNED`], [`CONFIG`], [`APPLICATION`] or [`FILLED`].
    pub origin: u8,
    /// The rule that returns when this one expires.
    pub covered: Covered,
    /// Nanoseconds of the monotonic clock at which the rule expires; [`NEVER`] if it stays.
    pub expires: u64,
}
boundary!(Rule, size 16);

impl Rule {
    /// Returns the rule that is in force at `now`, in nanoseconds: this one, or after its end the one that it covers.
    #[inline(always)]
    #[must_use]
    pub const fn at(self, now: u64) -> Option<Self> {
        if now < self.expires { Some(self) } else { self.below() }
    }

    /// Returns the rule that it covers. That one stays.
    #[inline(always)]
    #[must_use]
    pub const fn below(self) -> Option<Self> {
        match self.covered.0 {
            0 => None,
            _ => Some(
                Self { policy: self.covered.policy(), origin: self.covered.origin(), expires: NEVER, ..self }.bare(),
            ),
        }
    }

    /// Returns the same rule without the one that it covers.
    #[inline(always)]
    #[must_use]
    pub const fn bare(self) -> Self {
        Self { covered: Covered::NONE, ..self }
    }

    /// Returns the policies that it needs: its own, and that of the rule that it covers.
    pub fn policies(self) -> impl Iterator<Item = PolicyId> {
        core::iter::once(self.policy).chain(self.below().map(|below| below.policy))
    }
}

/// A rule that stays below one that expires: its policy and its origin, in one word. From the top: 4 bits of the origin,
/// and 12 of the policy.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Covered(pub u16);
boundary!(Covered, size 2);

const POLICY_BITS: u32 = 12;
const _: () = assert!(POLICIES_MAX <= 1 << POLICY_BITS);

impl Covered {
    /// No rule.
    pub const NONE: Self = Self(0);

    /// Covers a rule that stays. Its origin is never 0.
    #[must_use]
    pub const fn new(rule: &Rule) -> Self {
        Self((rule.origin as u16) << POLICY_BITS | rule.policy as u16)
    }

    #[inline(always)]
    const fn policy(self) -> PolicyId {
        (self.0 & ((1 << POLICY_BITS) - 1)) as PolicyId
    }

    #[inline(always)]
    const fn origin(self) -> u8 {
        (self.0 >> POLICY_BITS) as u8
    }
}

/// [`Rule::origin`] of a rule that was set by command.
pub const COMMAND: u8 = 1;
/// [`Rule::origin`] of the rule that keeps the operator's own SSH session open.
pub const SSH: u8 = 2;
/// [`Rule::origin`] of a ban, which the program itself has set.
pub const BANNED: u8 = 3;
/// [`Rule::origin`] of a rule that a configuration file asks for.
pub const CONFIG: u8 = 4;
/// [`Rule::origin`] of what the fleet of this host has told. Only lists have it.
pub const FLEET: u8 = 5;
/// [`Rule::origin`] of a limit that an application has asked for. It always has an end, covers no rule, and gives way to
/// rules of an operator.
pub const APPLICATION: u8 = 6;
/// [`Rule::origin`] of what CrowdSec has decided. Only lists have it.
pub const CROWDSEC: u8 = 7;
/// [`Rule::origin`] of a rule for a whole prefix that bans have filled.
pub const FILLED: u8 = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_rule_that_expires_gives_way_to_the_one_that_it_covers(
            policies in [0..POLICIES_MAX, 0..POLICIES_MAX], origins in [1u8..16, 1u8..16], expires: u64, now: u64,
        ) {
            let rule = |at: usize, expires, covered| {
                Rule { policy: policies[at], prefix: 24, origin: origins[at], covered, expires }
            };
            let below = rule(0, NEVER, Covered::NONE);
            let above = rule(1, expires, Covered::new(&below));
            prop_assert_eq!(above.at(now), Some(if now < expires { above } else { below }));
            prop_assert_eq!(above.bare().at(now), (now < expires).then_some(above.bare()));
            prop_assert!(above.policies().eq([policies[1], policies[0]]));
        }
    }
}
