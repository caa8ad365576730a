//! What the rules say to a source, before it becomes a [`Resolution`].

use ratelimit_common::{
    buckets::bucket::Resolution,
    limits::policy::{ALLOWED_ID, DENIED_ID, PolicyId},
    rules::rule::Rule,
};

/// What the rules of one class say to a source, in one word that is 0 if none concerns it: 9 bits of the rule's depth, then as in a
/// [`Resolution`] 12 of the policy and 26 of the expiry. In a word, the verifier does not tell apart how it was found.
#[derive(Clone, Copy)]
pub(crate) struct Match(u64);

/// Place of a match's depth.
const DEPTH_SHIFT: u32 = 38;

/// Depth of a class's default; that of a rule is deeper by 1 and the bits of its prefix.
pub(crate) const DEFAULT_DEPTH: u64 = 1;

impl Match {
    pub(crate) const NONE: Self = Self(0);

    #[inline(always)]
    pub(crate) fn new(policy: PolicyId, expires: u64, depth: u64) -> Self {
        Self(depth << DEPTH_SHIFT | Resolution::new(0, policy, expires).0)
    }

    #[inline(always)]
    pub(crate) fn of(rule: &Rule) -> Self {
        Self::new(rule.policy, rule.expires, DEFAULT_DEPTH + 1 + u64::from(rule.prefix))
    }

    #[inline(always)]
    pub(crate) fn depth(self) -> u64 {
        self.0 >> DEPTH_SHIFT
    }

    #[inline(always)]
    pub(crate) fn resolution(self) -> Resolution {
        Resolution(self.0 & ((1 << DEPTH_SHIFT) - 1))
    }

    /// Whether it lets everything pass or nothing, for which no state is needed.
    #[inline(always)]
    pub(crate) fn is_verdict(self) -> bool {
        let policy = self.resolution().policy();
        policy == ALLOWED_ID || policy == DENIED_ID
    }
}
