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
//! An allow wins against everything else. A [list](crate::rules::list) that denies the source wins against every other
//! rule except a deny. A ban of the source in that class, or in a narrower one, wins against every rule.
//!
//! For a source that this host [spares](crate::rules::spared), a deny, a list that denies and a ban are passed over as if
//! they were not there. Only a deny that an operator forces applies.
//!
//! A list that limits takes the place of the default of all packets, and so gives way to every rule of the source and to
//! the defaults of services. Of several lists with the source, one that denies applies first, then the one with the
//! longest prefix, then the one that was created first.

use crate::{
    identity::{
        class::{self, ANY, Class, Classes},
        source::Source,
    },
    limits::policy::{DENIED_ID, PolicyId, UNLIMITED_ID},
    rules::{
        rule::{NEVER, Rule},
        rule_match::{DEFAULT_DEPTH, Match},
    },
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

    /// Returns whether this host [spares](crate::rules::spared) a source. It is asked only where something denies.
    ///
    /// # Errors
    ///
    /// Fails if the spared prefixes cannot be read.
    fn is_spared(&self, source: &Source) -> Result<bool, Self::Error>;
}

/// Prefixes that can lie inside each other: one for each number of bits, 0 included.
const MOST_PREFIXES: u32 = 129;

/// Returns the match of one class's rules for a source at `now`, in nanoseconds. Exact for any number of expired
/// prefixes inside each other.
///
/// # Errors
///
/// Fails if the rules cannot be read.
#[inline(always)]
pub fn of_class<R: Rules>(rules: &R, source: &Source, class: Class, now: u64) -> Result<Match, R::Error> {
    let source = source.of_class(class);
    if let Some(rule) = rules.source_rule(&source)?.and_then(|rule| rule.at(now))
        && applies(rules, &source, &rule)?
    {
        return Ok(Match::of(&rule));
    }
    let mut bits = source.prefix;
    for _ in 0..MOST_PREFIXES {
        let Some(rule) = rules.prefix_rule(&source, bits)? else { break };
        if let Some(rule) = rule.at(now)
            && applies(rules, &source, &rule)?
        {
            return Ok(Match::of(&rule));
        }
        let Some(fewer) = rule.prefix.checked_sub(1) else { break };
        bits = fewer;
    }
    let policy = rules.default_policy(class)?;
    let has_none = policy == UNLIMITED_ID && class != ANY;
    Ok(if has_none { Match::NONE } else { Match::new(policy, NEVER, DEFAULT_DEPTH) })
}

/// Returns whether a rule applies to a source: it does not deny, or the source is not spared.
#[inline(always)]
fn applies<R: Rules>(rules: &R, source: &Source, rule: &Rule) -> Result<bool, R::Error> {
    Ok(rule.policy != DENIED_ID || !rules.is_spared(source)?)
}

/// Returns the ban of a source in one class at `now`, in nanoseconds; [`Match::NONE`] without one.
///
/// # Errors
///
/// Fails if the bans cannot be read.
#[inline(always)]
pub fn of_bans<R: Rules>(rules: &R, source: &Source, class: Class, now: u64) -> Result<Match, R::Error> {
    match rules.ban(&source.of_class(class))?.and_then(|ban| ban.at(now)) {
        Some(ban) if !rules.is_spared(source)? => Ok(Match::of(&ban)),
        _ => Ok(Match::NONE),
    }
}

/// Returns the match that wins among the classes of a packet, and its class. `rule` is [`of_class`] for the packet's
/// source, `ban` is [`of_bans`], and `list` is [`of_lists`](crate::rules::list_precedence::of_lists).
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
    list: impl FnOnce() -> Result<Match, E>,
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
    let list = list()?;
    if list.is_listed() && !best.is_verdict() {
        return Ok((list, billed));
    }
    if list != Match::NONE && billed == ANY && best.depth() <= DEFAULT_DEPTH {
        best = list;
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
/// `rule` is [`of_class`] for the packet's address, `ban` is [`of_bans`], and `list` is
/// [`of_lists`](crate::rules::list_precedence::of_lists). A list that limits does not divide sources that have a rule.
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
    list: impl FnOnce() -> Result<Match, E>,
) -> Result<Match, E> {
    let mut longest = Match::NONE;
    class::try_each(classes, has_services, |class| {
        for found in [rule(class)?, ban(class)?] {
            longest = if found.depth() > longest.depth() { found } else { longest };
        }
        Ok(())
    })?;
    let list = list()?;
    let applies = list.is_listed() || longest.depth() <= DEFAULT_DEPTH;
    Ok(if applies && list.prefix() > longest.prefix() { list } else { longest })
}

#[cfg(test)]
mod tests;
