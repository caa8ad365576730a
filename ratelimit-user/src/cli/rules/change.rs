//! Output of commands that change one rule.

use std::{io::Write, time::Duration};

use anyhow::Result;
use ratelimit_common::identity::service::Service;
use serde::Serialize;

use crate::{
    cli::print::{answer::Answer, output::Output},
    dataplane::{
        Instance,
        rules::{
            list::{self, Listed},
            services::Services,
            target::{Sources, Target},
        },
    },
    limit::write,
    text::service::ServiceName,
    text::units,
};

/// A rule that was set, and the rule that it replaced.
#[derive(Debug, Serialize)]
pub(crate) struct Change<R> {
    #[serde(flatten)]
    rule: R,
    replaced: Option<String>,
    /// Whether the rule expires.
    #[serde(skip)]
    is_temporary: bool,
}

impl<R> Change<R> {
    pub(crate) fn of(rule: R, replaced: Option<&Listed>, life: Option<Duration>) -> Self {
        let replaced = replaced.map(|rule| write::spec(&rule.spec));
        Self { rule, replaced, is_temporary: life.is_some() }
    }

    /// Returns the replaced rule for the end of a line.
    pub(crate) fn replaced_text(&self) -> String {
        let after = if self.is_temporary { ", which does not return when this rule expires" } else { "" };
        self.replaced.as_ref().map_or_else(String::new, |replaced| format!(" (replaced: {replaced}{after})"))
    }
}

/// Returns when a rule expires, for the end of a line.
pub(crate) fn expiry_text(life: Option<Duration>) -> String {
    life.map_or_else(String::new, |life| format!(", expires in {}", units::write_duration(life)))
}

/// The deleted rule.
#[derive(Debug, Serialize)]
pub(crate) struct Deleted {
    pub(crate) deleted: String,
}

/// Prints a negative answer: there is nothing to do.
pub(crate) fn negative(output: Output, message: &str) -> Result<Answer> {
    #[derive(Serialize)]
    struct Nothing<'a> {
        deleted: Option<String>,
        message: &'a str,
    }
    output.print(&Nothing { deleted: None, message }, |out: &mut dyn Write| writeln!(out, "{message}"))?;
    Ok(Answer::Negative)
}

/// Returns lines about the effect of a rule that was just set, where an operator may expect another one.
pub(crate) fn hints(instance: &Instance, target: Target) -> Result<Vec<String>> {
    let mut hints = exceptions(instance, target)?;
    if instance.attachments.is_empty() {
        hints.push("  not attached to any interface: the rule takes effect at the next `ratelimit attach`".to_owned());
    }
    Ok(hints)
}

/// Returns the rules for services inside the prefix of a rule for all services. They still apply, because they are
/// narrower.
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
    Ok(inside.map(|rule| format!("  does not apply to {}: {}", rule.target, write::spec(&rule.spec))).collect())
}

/// Returns the other rules of the same sources, for the end of a line that says that a rule is missing. `found` is the
/// rule for the same packets.
pub(crate) fn other_rules(instance: &Instance, target: Target, found: Option<Listed>) -> Result<String> {
    let same = list::list(&instance.tables)?.into_iter().filter(|rule| rule.target.sources == target.sources);
    Ok(rules_text(&found.into_iter().chain(same.filter(|rule| rule.target != target)).collect::<Vec<_>>()))
}

/// Returns the rules of a source, for the end of a line.
pub(crate) fn rules_text(rules: &[Listed]) -> String {
    let text = |rule: &Listed| match rule.target.service {
        Service::Any => write::spec(&rule.spec),
        service => format!("{} --service {}", write::spec(&rule.spec), ServiceName(service)),
    };
    let rules: Vec<String> = rules.iter().map(text).collect();
    if rules.is_empty() { String::new() } else { format!(": it has {}", rules.join("; ")) }
}
