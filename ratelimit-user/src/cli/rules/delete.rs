//! Deletes the rules of the sources that arguments name.

use std::path::Path;

use anyhow::Result;
use ratelimit_common::rules::rule::CONFIG;
use serde::Serialize;

use super::{
    change::{deletion, negative, other_rules},
    delete_many::Rules,
};
use crate::{
    cli::print::{answer::Answer, hint, output::Output},
    dataplane::{
        Instance,
        rules::{batch::Change, list, target::Target},
    },
    ssh,
};

/// The deleted rule.
#[derive(Debug, Serialize)]
pub(crate) struct Deleted {
    pub(crate) deleted: String,
}

/// Deletes the rule of each target, all or none. `done` says what has happened to it.
pub(super) fn delete(rules: &Rules<'_>, targets: &[Target], done: &str, pins: &Path, output: Output) -> Result<Answer> {
    let mut instance = Instance::open(pins)?;
    let (mut change, mut outcomes, mut missing) = (Change::default(), Vec::new(), Vec::new());
    let mut is_of_file = false;
    for target in targets {
        let is_banned = rules.lifts_bans && list::ban(&instance.tables, *target)?.is_some();
        let found = list::get(&instance.tables, *target)?;
        match found.as_ref().and_then(|rule| deletion(rule, rules.matches)) {
            Some((deletion, then)) => {
                is_of_file |= found.is_some_and(|rule| match &rule.covers {
                    Some(covered) if deletion.deleted.is_empty() => covered.origin == CONFIG,
                    _ => rule.origin == CONFIG,
                });
                change.deleted.extend(deletion.deleted);
                change.deleted_below.extend(deletion.deleted_below);
                outcomes.push(format!("{done}{then}"));
            }
            None if is_banned => {
                change.lifted.push(*target);
                outcomes.push("no longer banned".to_owned());
            }
            None => {
                let others = other_rules(&instance, *target, found)?;
                missing.push(format!("{target} has no {}{others}", rules.name));
            }
        }
    }
    if !missing.is_empty() {
        if missing.len() < targets.len() {
            missing.push("nothing was deleted".to_owned());
        }
        return negative(output, &missing, targets.len() > 1);
    }
    ssh::change(&mut instance, &change, rules.force, &mut |_| {})?;
    let deleted: Vec<Deleted> = targets.iter().map(|target| Deleted { deleted: target.to_string() }).collect();
    output.print_each(&deleted, |out| {
        let mut lines = deleted.iter().zip(&outcomes);
        lines.try_for_each(|(Deleted { deleted }, outcome)| writeln!(out, "{deleted}: {outcome}"))?;
        if is_of_file { hint::of_file(out, pins) } else { Ok(()) }
    })?;
    Ok(Answer::Done)
}
