//! Precedence of rules: one engine that decides which rule applies to a source, a class and a time. The kernel side and
//! the user side both run it.
//!
//! For each class, the first of these applies. In the place of a rule that has expired, the rule that it covers applies.
//!
//! 1. the rule of exactly this source,
//! 2. the rule of the longest prefix around it,
//! 3. the default of the class.
//!
//! Among the classes of a packet, the narrowest one with a match wins. But if a rule for a longer prefix allows or
//! denies the source everything in a wider class, that rule wins.
//!
//! A ban of the source in that class, or in a narrower one, wins against every rule except an allow.

use crate::{
    buckets::bucket::Resolution,
    identity::{
        class::{self, ANY, Class, Classes},
        source::Source,
    },
    limits::policy::{ALLOWED_ID, DENIED_ID, PolicyId, UNLIMITED_ID},
    rules::rule::{NEVER, Rule},
};

/// Access to rules and bans. Each function may return one that has expired.
pub trait Rules {
    /// Error of an access.
    type Error;

    /// Returns the ban of a source.
    ///
    /// # Errors
    ///
    /// Fails if the rules cannot be read.
    fn ban(&self, source: &Source) -> Result<Option<Rule>, Self::Error>;

    /// Returns the rule of exactly this source.
    ///
    /// # Errors
    ///
    /// Fails if the rules cannot be read.
    fn source_rule(&self, source: &Source) -> Result<Option<Rule>, Self::Error>;

    /// Returns the rule of the longest prefix around a source that has at most `bits` bits.
    ///
    /// # Errors
    ///
    /// Fails if the rules cannot be read.
    fn prefix_rule(&self, source: &Source, bits: u8) -> Result<Option<Rule>, Self::Error>;

    /// Returns the policy of sources without a rule for this class; [`UNLIMITED_ID`] if the class has no default.
    ///
    /// # Errors
    ///
    /// Fails if the rules cannot be read.
    fn default_policy(&self, class: Class) -> Result<PolicyId, Self::Error>;
}

/// Prefixes that can lie inside each other: one for each number of bits, 0 included.
const MOST_PREFIXES: u32 = 129;

/// Match of one class's rules for a source, in one word: 9 bits of the rule's depth, and as in a [`Resolution`] 12 of
/// the policy and 26 of the expiry. The kernel's verifier does not tell apart how a word came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Match(pub u64);

const DEPTH_SHIFT: u32 = 38;

/// Depth of a class's default. The depth of a rule is larger by 1 and the bits of its prefix.
const DEFAULT_DEPTH: u64 = 1;

impl Match {
    /// No rule and no default.
    pub const NONE: Self = Self(0);

    #[inline(always)]
    fn new(policy: PolicyId, expires: u64, depth: u64) -> Self {
        Self(depth << DEPTH_SHIFT | Resolution::new(0, policy, expires).0)
    }

    #[inline(always)]
    fn of(rule: &Rule) -> Self {
        Self::new(rule.policy, rule.expires, DEFAULT_DEPTH + 1 + u64::from(rule.prefix))
    }

    #[inline(always)]
    const fn depth(self) -> u64 {
        self.0 >> DEPTH_SHIFT
    }

    /// Returns the bits of the rule's prefix; 0 for a default.
    #[inline(always)]
    #[must_use]
    pub const fn prefix(self) -> u8 {
        self.depth().saturating_sub(DEFAULT_DEPTH + 1) as u8
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
        self.is_allow() || self.resolution().policy() == DENIED_ID
    }

    /// Returns whether it allows everything.
    #[inline(always)]
    #[must_use]
    pub const fn is_allow(self) -> bool {
        self.resolution().policy() == ALLOWED_ID
    }
}

/// Returns the match of one class's rules for a source at `now`, in nanoseconds. Exact for any number of expired
/// prefixes inside each other.
///
/// # Errors
///
/// Fails if the rules cannot be read.
#[inline(always)]
pub fn of_class<R: Rules>(rules: &R, source: &Source, class: Class, now: u64) -> Result<Match, R::Error> {
    let source = source.of_class(class);
    if let Some(rule) = rules.source_rule(&source)?.and_then(|rule| rule.at(now)) {
        return Ok(Match::of(&rule));
    }
    let mut bits = source.prefix;
    for _ in 0..MOST_PREFIXES {
        let Some(rule) = rules.prefix_rule(&source, bits)? else { break };
        if let Some(rule) = rule.at(now) {
            return Ok(Match::of(&rule));
        }
        let Some(fewer) = rule.prefix.checked_sub(1) else { break };
        bits = fewer;
    }
    let policy = rules.default_policy(class)?;
    let has_none = policy == UNLIMITED_ID && class != ANY;
    Ok(if has_none { Match::NONE } else { Match::new(policy, NEVER, DEFAULT_DEPTH) })
}

/// Returns the ban of a source in one class at `now`, in nanoseconds; [`Match::NONE`] without one.
///
/// # Errors
///
/// Fails if the bans cannot be read.
#[inline(always)]
pub fn of_bans<R: Rules>(rules: &R, source: &Source, class: Class, now: u64) -> Result<Match, R::Error> {
    let ban = rules.ban(&source.of_class(class))?.and_then(|ban| ban.at(now));
    Ok(ban.map_or(Match::NONE, |ban| Match::of(&ban)))
}

/// Returns the match that wins among the classes of a packet, and its class. `rule` is [`of_class`] for the packet's
/// source, and `ban` is [`of_bans`].
///
/// # Errors
///
/// Fails if the rules cannot be read.
#[inline(always)]
pub fn best<E>(
    classes: Classes,
    has_services: bool,
    mut rule: impl FnMut(Class) -> Result<Match, E>,
    mut ban: impl FnMut(Class) -> Result<Match, E>,
) -> Result<(Match, Class), E> {
    let (mut best, mut billed) = (Match::NONE, ANY);
    class::try_each(classes, has_services, |class| {
        let found = rule(class)?;
        if best.depth() == 0 || found.is_verdict() && found.depth() > best.depth() {
            (best, billed) = (found, class);
        }
        Ok(())
    })?;
    if best.is_allow() {
        return Ok((best, billed));
    }
    let mut is_wider = false;
    class::try_each(classes, has_services, |class| {
        let found = if is_wider { Match::NONE } else { ban(class)? };
        is_wider |= class == billed;
        if found != Match::NONE {
            (best, billed, is_wider) = (found, class, true);
        }
        Ok(())
    })?;
    Ok((best, billed))
}

/// Returns the match with the longest prefix that has a rule or a ban for any of the classes, or that of a default.
/// `rule` is [`of_class`] for the packet's address, and `ban` is [`of_bans`].
///
/// # Errors
///
/// Fails if the rules cannot be read.
#[inline(always)]
pub fn longest_prefix<E>(
    classes: Classes,
    has_services: bool,
    mut rule: impl FnMut(Class) -> Result<Match, E>,
    mut ban: impl FnMut(Class) -> Result<Match, E>,
) -> Result<Match, E> {
    let mut longest = Match::NONE;
    class::try_each(classes, has_services, |class| {
        for found in [rule(class)?, ban(class)?] {
            longest = if found.depth() > longest.depth() { found } else { longest };
        }
        Ok(())
    })?;
    Ok(longest)
}

#[cfg(test)]
mod tests;
