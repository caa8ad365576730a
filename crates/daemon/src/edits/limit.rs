//! New limits, and changes of limits that exist.

use std::time::Duration;

use anyhow::{Result, bail};
use ratelimit_common::{
    limits::{limit_error::LimitError, policy::LIMIT},
    rules::comment::Comment,
};
use ratelimit_dataplane::rules::{list::Listed, spec::RuleSpec, target::Target};

use super::request::Request;
use crate::limit::{Rates, merge::merge};

/// The end of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It has none.
    Never,
    /// It ends after this time.
    After(Duration),
}

/// What an operator asks for.
#[derive(Debug, Clone, Copy)]
pub struct Wish<'a> {
    pub rates: &'a Rates,
    pub end: Option<End>,
    pub comment: Option<Comment>,
    /// Whether nothing is kept of a limit that exists.
    pub replace: bool,
    /// The option or the command that does that, for messages.
    pub anew: &'a str,
}

/// What a limit keeps unless options say otherwise.
#[derive(Default)]
struct Base<'l> {
    spec: Option<&'l RuleSpec>,
    /// Time until it expires.
    left: Option<Duration>,
    comment: Option<&'l str>,
}

impl<'l> Base<'l> {
    /// Returns the limit in force, or the one that another rule covers.
    fn of(existing: Option<&'l Listed>) -> Self {
        let Some(rule) = existing else { return Self::default() };
        let below = rule.covers.as_ref().filter(|below| is_limit(&below.spec));
        match below {
            _ if is_limit(&rule.spec) => {
                Self { spec: Some(&rule.spec), left: rule.expires_in, comment: rule.comment.as_deref() }
            }
            Some(below) => Self { spec: Some(&below.spec), left: None, comment: below.comment.as_deref() },
            None => Self::default(),
        }
    }
}

impl Wish<'_> {
    /// Returns the rule to set for a target that has this rule.
    pub fn request(&self, target: Target, existing: Option<&Listed>) -> Result<Request> {
        let base = Base::of(existing);
        let spec = match base.spec {
            // Only its end or its comment changes.
            Some(spec) if self.rates.is_empty() => spec.clone(),
            None if self.rates.is_empty() => bail!(LimitError::Empty),
            spec => merge(spec, self.rates, target.sources, self.anew)?,
        };
        let life = if self.end.is_some() { self.life() } else { base.left };
        let kept = base.comment.and_then(|comment| Comment::new(comment).ok());
        let keeps_throttle = !self.rates.has_throttle();
        Ok(Request { target, spec, life, comment: self.given_comment().or(kept), keeps_throttle })
    }

    /// Returns how long the limit is to last. None is without an end.
    pub fn life(&self) -> Option<Duration> {
        match self.end {
            Some(End::After(life)) => Some(life),
            Some(End::Never) | None => None,
        }
    }

    /// Returns the comment of a limit that does not exist yet.
    pub fn given_comment(&self) -> Option<Comment> {
        self.comment.or(self.replace.then_some(Comment::EMPTY))
    }
}

/// Returns whether a rule is a limit.
pub fn is_limit(spec: &RuleSpec) -> bool {
    spec.policy.kind == LIMIT
}
