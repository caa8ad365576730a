//! `ratelimit limit set`: new limits, and changes of limits that exist.

use std::{path::Path, time::Duration};

use anyhow::{Result, bail, ensure};
use ratelimit_common::{identity::service::Service, limits::limit_error::LimitError, rules::comment::Comment};

use super::{
    change::{self, Request},
    limit_row::{Row, is_limit},
    set_many::{self, Fresh},
};
use crate::{
    cli::print::{answer::Answer, output::Output},
    dataplane::{
        Instance,
        rules::{
            list::{self, Listed},
            spec::RuleSpec,
            target::{Sources, Target},
        },
    },
    limit::{Rates, merge::merge, write},
    text::units::{self, UnitError},
};

/// The option that ignores existing limits.
const ANEW: &str = "--replace";

/// The end of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// It has none.
    Never,
    /// It ends after this time.
    After(Duration),
}

/// Reads a duration, or `never`.
pub(super) fn end(text: &str) -> Result<End, UnitError> {
    if text == "never" { Ok(End::Never) } else { units::duration(text).map(End::After) }
}

/// What all the limits have in common.
pub(super) struct Setting<'a> {
    pub(super) rates: &'a Rates,
    pub(super) service: Service,
    pub(super) end: Option<End>,
    pub(super) comment: Option<Comment>,
    pub(super) replace: bool,
    pub(super) force: bool,
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

impl Setting<'_> {
    /// Sets the limit of each of these sources, all or none.
    pub(super) fn each(&self, sources: &[Sources], pins: &Path, output: Output) -> Result<Answer> {
        let targets: Vec<Target> = sources.iter().map(|sources| Target::from(*sources).of(self.service)).collect();
        // What is not valid for any limit needs no instance.
        if self.replace || !self.changes_some() {
            sources.iter().try_for_each(|sources| self.rates.some_terms(*sources).map(drop))?;
        }
        ensure!(
            !sources.contains(&Sources::Default) || !matches!(self.end, Some(End::After(_))),
            "the default limit cannot expire: omit --for, or limit 0.0.0.0/0 and ::/0 instead"
        );
        let mut instance = Instance::open(pins).or_else(|error| {
            // Invalid options are the first thing to correct.
            sources.iter().try_for_each(|sources| self.rates.some_terms(*sources).map(drop))?;
            Err(anyhow::Error::from(error))
        })?;
        let mut requests = Vec::new();
        for target in &targets {
            let existing = if self.replace { None } else { list::get(&instance.tables, *target)? };
            requests.push(self.request(*target, existing.as_ref())?);
        }
        let life = self.life();
        let set = change::set(&mut instance, requests, self.force)?;
        change::print(&instance, &set, Row::of, &|rule| write::limit(&rule.spec), life, output)
    }

    /// Sets the limit of each prefix on standard input, all or none.
    pub(super) fn many(&self, skip_bad: bool, pins: &Path, output: Output) -> Result<Answer> {
        let spec = self.rates.some_terms(Sources::Default);
        let spec = match spec {
            Err(error) if self.replace || !self.changes_some() || self.rates.has_rates() => return Err(error),
            spec => spec.map_err(|error| error.to_string()),
        };
        let text = spec.as_ref().map_or_else(|_| "limit changed".to_owned(), write::limit);
        let merged = |target: Target, existing: &Listed| self.request(target, Some(existing));
        let rule = set_many::Rule {
            service: self.service,
            fresh: Fresh { spec, comment: self.given_comment() },
            merged: if self.replace { None } else { Some(&merged) },
            life: self.life(),
            force: self.force,
            skip_bad,
            text: &text,
        };
        set_many::set(&rule, pins, output)
    }

    /// Returns whether it can change a limit that exists.
    fn changes_some(&self) -> bool {
        !self.rates.is_empty() || self.end.is_some() || self.comment.is_some()
    }

    fn life(&self) -> Option<Duration> {
        match self.end {
            Some(End::After(life)) => Some(life),
            Some(End::Never) | None => None,
        }
    }

    /// Returns the comment of a limit that does not exist yet.
    fn given_comment(&self) -> Option<Comment> {
        self.comment.or(self.replace.then_some(Comment::EMPTY))
    }

    fn request(&self, target: Target, existing: Option<&Listed>) -> Result<Request> {
        let base = Base::of(existing);
        let spec = match base.spec {
            // Only its end or its comment changes.
            Some(spec) if self.rates.is_empty() => spec.clone(),
            None if self.rates.is_empty() => bail!(LimitError::Empty),
            spec => merge(spec, self.rates, target.sources, ANEW)?,
        };
        let life = if self.end.is_some() { self.life() } else { base.left };
        let kept = base.comment.and_then(|comment| Comment::new(comment).ok());
        let keeps_throttle = !self.rates.has_throttle();
        Ok(Request { target, spec, life, comment: self.given_comment().or(kept), keeps_throttle })
    }
}
