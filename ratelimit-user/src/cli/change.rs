//! What a command that changes a rule says about it.

use std::{io::Write, time::Duration};

use anyhow::Result;
use ratelimit_common::identity::service::Service;
use serde::Serialize;

use super::{Answer, output::Output};
use crate::{
    dataplane::{
        Instance,
        rules::{
            list::{self, Listed},
            services::Services,
            target::{Sources, Target},
        },
    },
    limit::write,
    service::ServiceName,
    units,
};

/// A rule that was set, and what it has replaced.
#[derive(Debug, Serialize)]
pub(super) struct Change<R> {
    #[serde(flatten)]
    rule: R,
    replaced: Option<String>,
    /// Whether the rule ends by itself.
    #[serde(skip)]
    is_temporary: bool,
}

impl<R> Change<R> {
    pub(super) fn of(rule: R, replaced: Option<&Listed>, life: Option<Duration>) -> Self {
        let replaced = replaced.map(|rule| write::terms(&rule.terms));
        Self { rule, replaced, is_temporary: life.is_some() }
    }

    /// For the end of a line.
    pub(super) fn note(&self) -> String {
        let after = if self.is_temporary { ", which does not come back" } else { "" };
        self.replaced.as_ref().map_or_else(String::new, |replaced| format!(" (instead of: {replaced}{after})"))
    }
}

/// How long a rule lives, for the end of a line.
pub(super) fn for_time(life: Option<Duration>) -> String {
    life.map_or_else(String::new, |life| format!(", ends in {}", units::write_duration(life)))
}

/// What was deleted.
#[derive(Debug, Serialize)]
pub(super) struct Deleted {
    pub(super) deleted: String,
}

/// Says that there is nothing to do, with exit status 1.
pub(super) fn negative(output: Output, message: &str) -> Result<Answer> {
    #[derive(Serialize)]
    struct Nothing<'a> {
        deleted: Option<String>,
        message: &'a str,
    }
    output.print(&Nothing { deleted: None, message }, |out: &mut dyn Write| writeln!(out, "{message}"))?;
    Ok(Answer::Negative)
}

/// What an operator may not expect of a rule that was just set, a line each.
pub(super) fn notes(instance: &Instance, target: Target) -> Result<Vec<String>> {
    let mut notes = exceptions(instance, target)?;
    if instance.attachments.list()?.is_empty() {
        notes.push("  not attached to any interface: in force from the next `ratelimit attach` on".to_owned());
    }
    Ok(notes)
}

/// Rules for services that go on inside a prefix with a rule for everything: theirs win unless their prefix is shorter.
fn exceptions(instance: &Instance, target: Target) -> Result<Vec<String>> {
    let Sources::Prefix(prefix) = target.sources else { return Ok(Vec::new()) };
    if target.service != Service::Any || Services::read(&instance.tables)?.is_empty() {
        return Ok(Vec::new());
    }
    let is_inside = |rule: &Listed| match rule.target.sources {
        Sources::Prefix(other) => rule.target.service != Service::Any && prefix.contains(&other),
        Sources::Default => false,
    };
    let rules = list::list(&instance.tables)?;
    let inside = rules.iter().filter(|rule| is_inside(rule));
    Ok(inside.map(|rule| format!("  not for {}: {}", rule.target, write::terms(&rule.terms))).collect())
}

/// The rules that sources have where the one in question is missing, for the end of a line: `found` is the rule of the very
/// same packets.
pub(super) fn others(instance: &Instance, target: Target, found: Option<Listed>) -> Result<String> {
    let same = list::list(&instance.tables)?.into_iter().filter(|rule| rule.target.sources == target.sources);
    Ok(words(&found.into_iter().chain(same.filter(|rule| rule.target != target)).collect::<Vec<_>>()))
}

/// What sources have, for the end of a line.
pub(super) fn words(rules: &[Listed]) -> String {
    let words = |rule: &Listed| match rule.target.service {
        Service::Any => write::terms(&rule.terms),
        service => format!("{} --service {}", write::terms(&rule.terms), ServiceName(service)),
    };
    let rules: Vec<String> = rules.iter().map(words).collect();
    if rules.is_empty() { String::new() } else { format!(": it has {}", rules.join("; ")) }
}
