//! Output of commands that change one rule.

use std::{io::Write, time::Duration};

use anyhow::Result;
use ratelimit_common::{identity::service::Service, rules::rule::COMMAND};
use serde::Serialize;

use crate::{
    cli::print::{answer::Answer, output::Output},
    dataplane::{
        Error, Instance,
        rules::{
            batch::{self, Protected},
            list::{self, Listed},
            services::Services,
            spec::RuleSpec,
            target::{Sources, Target},
        },
    },
    limit::write,
    ssh,
    text::service::ServiceName,
    text::units,
};

/// Sets one rule. Returns the rule that is in force then, and the one that it replaced.
pub(crate) fn set(
    instance: &mut Instance,
    target: Target,
    spec: RuleSpec,
    life: Option<Duration>,
    force: bool,
) -> Result<(Listed, Option<Listed>), Error> {
    let protected = if force { Protected::None } else { Protected::Replaced };
    let change = batch::Change { protected, ..batch::Change::set(target, &spec, life, COMMAND) };
    let replaced = ssh::change(instance, &change, force, &mut |_| {})?.replaced.pop();
    // A short life can be over by now.
    let set = list::get(&instance.tables, target)?.unwrap_or_else(|| Listed::set(target, spec, life));
    Ok((set, replaced))
}

/// Returns how to delete the rule of a target that `is_meant`: the one in force, or the one that it covers. The second
/// value says what applies then, for the end of a line.
pub(crate) fn deletion(rule: &Listed, is_meant: impl Fn(&RuleSpec) -> bool) -> Option<(batch::Change, String)> {
    let in_force = write::spec(&rule.spec);
    let covered = rule.covers.as_ref();
    if is_meant(&rule.spec) {
        let returns = covered.map(|covered| format!(", {} again", write::spec(&covered.spec)));
        return Some((batch::Change::delete(rule.target), returns.unwrap_or_default()));
    }
    let below = covered.filter(|covered| is_meant(&covered.spec))?;
    let text = format!(": {} does not return after {in_force}", write::spec(&below.spec));
    Some((batch::Change::delete_below(rule.target), text))
}

/// A rule that was set, and the rule that it replaced.
#[derive(Debug, Serialize)]
pub(crate) struct Change<R> {
    #[serde(flatten)]
    rule: R,
    replaced: Option<String>,
    /// When it expires and what it has replaced, for the end of a line.
    #[serde(skip)]
    end: String,
}

impl<R> Change<R> {
    /// `life` is what was requested of `set`, the rule in force.
    pub(crate) fn of(rule: R, set: &Listed, replaced: Option<&Listed>, life: Option<Duration>) -> Self {
        let replaced = replaced.map(|rule| write::spec(&rule.spec));
        let covers = set.covers.as_ref().map(|covered| write::spec(&covered.spec));
        let mut end = match (life, set.expires_in) {
            (Some(_), None) => ", without an end as before".to_owned(),
            _ => expiry_text(life),
        };
        if let Some(covers) = &covers {
            end += &format!(", then {covers} again");
        }
        match &replaced {
            Some(replaced) if Some(replaced) != covers.as_ref() => end += &format!(" (replaced: {replaced})"),
            _ => {}
        }
        Self { rule, replaced, end }
    }

    /// Returns when the rule expires and what it has replaced, for the end of a line.
    pub(crate) fn end(&self) -> &str {
        &self.end
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
