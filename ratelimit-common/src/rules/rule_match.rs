//! A match: what the rules of one class or the lists have for a source.

use crate::{
    buckets::bucket::Resolution,
    limits::policy::{ALLOWED_ID, DENIED_ID, FORCED_ID, PolicyId},
    rules::rule::Rule,
};

/// Match of one class's rules or of lists for a source, in one word: 9 bits of the depth, of which the highest is set for
/// a list that denies, and as in a [`Resolution`] 12 of the policy and 26 of the expiry. The kernel's verifier does not tell apart how a word came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Match(pub u64);

const DEPTH_SHIFT: u32 = 38;

/// Depth of a class's default. The depth of a rule is larger by 1 and the bits of its prefix.
pub(crate) const DEFAULT_DEPTH: u64 = 1;

/// Added to the depth of a list that denies.
pub(crate) const LISTED_DEPTH: u64 = 1 << 8;

impl Match {
    /// No rule and no default.
    pub const NONE: Self = Self(0);

    #[inline(always)]
    pub(crate) fn new(policy: PolicyId, expires: u64, depth: u64) -> Self {
        Self(depth << DEPTH_SHIFT | Resolution::new(0, policy, expires).0)
    }

    #[inline(always)]
    pub(crate) fn of(rule: &Rule) -> Self {
        Self::new(rule.policy, rule.expires, DEFAULT_DEPTH + 1 + u64::from(rule.prefix))
    }

    #[inline(always)]
    pub(crate) const fn depth(self) -> u64 {
        self.0 >> DEPTH_SHIFT
    }

    /// Returns the bits of the rule's prefix; 0 for a default.
    #[inline(always)]
    #[must_use]
    pub const fn prefix(self) -> u8 {
        (self.depth() & (LISTED_DEPTH - 1)).saturating_sub(DEFAULT_DEPTH + 1) as u8
    }

    /// Returns whether it is the default of a class.
    #[inline(always)]
    #[must_use]
    pub const fn is_default(self) -> bool {
        self.depth() == DEFAULT_DEPTH
    }

    /// Returns the policy and its validity, in generation 0.
    #[inline(always)]
    #[must_use]
    pub const fn resolution(self) -> Resolution {
        Resolution(self.0 & ((1 << DEPTH_SHIFT) - 1))
    }

    /// Returns whether it allows or denies everything, for which no state is needed.
    #[inline(always)]
    #[must_use]
    pub const fn is_verdict(self) -> bool {
        self.is_allow() || self.is_listed() || matches!(self.resolution().policy(), DENIED_ID | FORCED_ID)
    }

    /// Returns whether it is a list that denies.
    #[inline(always)]
    #[must_use]
    pub const fn is_listed(self) -> bool {
        self.depth() & LISTED_DEPTH != 0
    }

    /// Returns whether it allows everything.
    #[inline(always)]
    #[must_use]
    pub const fn is_allow(self) -> bool {
        self.resolution().policy() == ALLOWED_ID
    }
}
