//! Deletes the rules of the sources that arguments name.

use std::path::Path;

use anyhow::Result;
use ratelimit_common::rules::rule::{CONFIG, CROWDSEC, FLEET};
use ratelimit_daemon::{edits::deletion::deletion, ssh};
use ratelimit_dataplane::{
    Instance,
    lists::listing,
    rules::{
        batch::Change,
        list,
        target::{Sources, Target},
    },
};
use serde::Serialize;

use super::{
    change::{self, other_rules},
    delete_many::{Rules, covering},
    sources_argument::Cuts,
};
use crate::cli::print::{answer::Answer, hint, output::Output};

/// The deleted rule.
#[derive(Debug, Serialize)]
pub(crate) struct Deleted {
    /// None if there is no such rule.
    pub(crate) deleted: Option<String>,
    /// Why nothing was deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
    /// The argument, if bits of its address beyond the prefix were cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) given: Option<String>,
}

impl Deleted {
    /// Returns the deleted rule of this name.
    pub(crate) fn of(name: &impl ToString) -> Self {
        Self { deleted: Some(name.to_string()), message: None, given: None }
    }
}

/// Returns which list of the fleet or of CrowdSec has a source, for the end of a line.
fn of_others(instance: &Instance, target: Target) -> Result<String> {
    let Sources::Prefix(prefix) = target.sources else { return Ok(String::new()) };
    let lists = listing::having(&instance.tables, &prefix.source())?;
    let hint = lists.iter().find_map(|list| match list.origin {
        FLEET => Some(hint::denied_by_fleet(&list.name, &prefix)),
        CROWDSEC => Some(hint::denied_by_crowdsec(&list.name, &prefix)),
        _ => None,
    });
    Ok(hint.unwrap_or_default())
}

/// Deletes the rule of each target, all or none. `done` says what has happened to it.
pub(super) fn delete(
    rules: &Rules<'_>,
    targets: &[Target],
    cuts: &Cuts,
    done: &str,
    pins: &Path,
    output: Output,
) -> Result<Answer> {
    let mut instance = Instance::open(pins)?;
    let (mut change, mut rows, mut lines) = (Change::default(), Vec::new(), Vec::new());
    let mut is_of_file = false;
    for target in targets {
        let is_banned = rules.lifts_bans && list::ban(&instance.tables, *target)?.is_some();
        let found = list::get(&instance.tables, *target)?;
        match found.as_ref().and_then(|rule| deletion(rule, rules.matches, rules.owner.as_ref())) {
            Some((deletion, then)) => {
                is_of_file |= found.is_some_and(|rule| match &rule.covers {
                    Some(covered) if deletion.deleted.is_empty() => {
                        covered.origin == CONFIG && (rules.matches)(&covered.spec, covered.comment.as_deref())
                    }
                    _ => rule.origin == CONFIG && rules.meant_alone(&rule),
                });
                change.deleted.extend(deletion.deleted);
                change.deleted_below.extend(deletion.deleted_below);
                change.ended.extend(deletion.ended);
                lines.push(format!("{target}: {done}{then}"));
                rows.push(Deleted::of(target));
            }
            None if is_banned => {
                change.lifted.push(*target);
                lines.push(format!("{target}: no longer banned"));
                rows.push(Deleted::of(target));
            }
            None => {
                let others = other_rules(&instance, *target, found)?;
                let listed = if rules.lifts_bans { of_others(&instance, *target)? } else { String::new() };
                let whole = covering(&instance.tables, rules, *target)?;
                let message = format!("{target} has no {}{others}{listed}{whole}", rules.name);
                lines.push(message.clone());
                rows.push(Deleted { deleted: None, message: Some(message), given: None });
            }
        }
    }
    for (row, target) in rows.iter_mut().zip(targets) {
        row.given = cuts.written(target.sources);
    }
    let mut missing: Vec<String> = rows.iter().filter_map(|row| row.message.clone()).collect();
    if !missing.is_empty() && !rules.if_exists {
        if missing.len() < targets.len() {
            missing.push("nothing was deleted".to_owned());
        }
        return change::missing(output, &missing, targets.len() > 1, false);
    }
    if missing.len() < targets.len() {
        ssh::change(&mut instance, &change, rules.force, &mut |_| {})?;
    }
    output.print_each(&rows, |out| {
        cuts.write(out)?;
        lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        if is_of_file { hint::of_file(out, pins) } else { Ok(()) }
    })?;
    Ok(if missing.len() < targets.len() { Answer::Done } else { Answer::Unchanged })
}
