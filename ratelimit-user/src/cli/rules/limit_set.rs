//! `ratelimit limit set`: new limits, and changes of limits that exist.

use std::path::Path;

use anyhow::{Result, ensure};
use ratelimit_base::text::units::{self, UnitError};
use ratelimit_common::{identity::service::Service, rules::comment::Comment};
use ratelimit_daemon::{
    edits::limit::{End, Wish},
    limit::{Rates, write},
};
use ratelimit_dataplane::{
    Instance,
    rules::{
        list::{self, Listed},
        target::{Sources, Target},
    },
};

use super::{
    change,
    limit_row::Row,
    set_many::{self, Fresh},
    sources_argument::Cuts,
};
use crate::cli::print::{answer::Answer, output::Output};

/// The option that ignores existing limits.
const ANEW: &str = "--replace";

/// Reads a duration, or `never`.
pub(super) fn end(text: &str) -> Result<End, UnitError> {
    if text == "never" { Ok(End::Never) } else { units::lifetime(text).map(End::After) }
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

impl Setting<'_> {
    /// Sets the limit of each of these sources, all or none.
    pub(super) fn each(&self, sources: &[Sources], cuts: &Cuts, pins: &Path, output: Output) -> Result<Answer> {
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
        let (wish, mut requests) = (self.wish(), Vec::new());
        for target in &targets {
            let existing = if self.replace { None } else { list::get(&instance.tables, *target)? };
            requests.push(wish.request(*target, existing.as_ref())?);
        }
        let set = change::set(&mut instance, requests, self.force)?;
        change::print(&instance, &set, (cuts, &[]), Row::of, &|rule| write::limit(&rule.spec), wish.life(), output)
    }

    /// Sets the limit of each prefix on standard input, all or none.
    pub(super) fn many(&self, skip_bad: bool, pins: &Path, output: Output) -> Result<Answer> {
        let spec = self.rates.some_terms(Sources::Default);
        let spec = match spec {
            Err(error) if self.replace || !self.changes_some() || self.rates.has_rates() => return Err(error),
            spec => spec.map_err(|error| error.to_string()),
        };
        let text = spec.as_ref().map_or_else(|_| "limit changed".to_owned(), write::limit);
        let wish = self.wish();
        let merged = |target: Target, existing: &Listed| wish.request(target, Some(existing));
        let rule = set_many::Rule {
            service: self.service,
            fresh: Fresh { spec, comment: wish.given_comment() },
            merged: if self.replace { None } else { Some(&merged) },
            life: wish.life(),
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

    fn wish(&self) -> Wish<'_> {
        let Self { rates, end, comment, replace, .. } = *self;
        Wish { rates, end, comment, replace, anew: ANEW }
    }
}
