//! Deletes the rule of each prefix on standard input.

use std::path::Path;

use anyhow::Result;
use ratelimit_base::text::{
    feed::{Bad, Purpose},
    units,
};
use ratelimit_common::{
    identity::service::Service,
    rules::{
        comment::Comment,
        rule::{BANNED, CONFIG},
    },
};
use ratelimit_daemon::{edits::deletion::Matches, limit::write, ssh};
use ratelimit_dataplane::{
    Instance,
    rules::{
        batch::Change,
        list::{self, Listed, around},
        target::{Sources, Target},
    },
    tables::open::Tables,
};
use serde::Serialize;

use super::{
    change::rules_text,
    feedback::{NO_ADDRESS, bar, nothing, skipped_text},
    lines::{self, Passed, SHOWN},
};
use crate::cli::print::{
    answer::Answer,
    hint,
    output::{Output, count},
};

/// The rules to delete.
pub(crate) struct Rules<'a> {
    pub(crate) service: Service,
    pub(crate) force: bool,
    /// Whether lines that are invalid or have no such rule are skipped.
    pub(crate) skip_bad: bool,
    /// Whether a source without such a rule is no failure.
    pub(crate) if_exists: bool,
    /// The kind of rule in messages, for example `limit`.
    pub(crate) name: &'a str,
    /// Returns whether a rule with this comment is such a rule.
    pub(crate) matches: Matches<'a>,
    /// The owner whose rules *deny* end. None ends them for all owners.
    pub(crate) owner: Option<Comment>,
    /// Whether the ban of a source without such a rule is lifted instead.
    pub(crate) lifts_bans: bool,
}

impl Rules<'_> {
    /// Returns whether a rule in force is such a rule, or one of its owners has it.
    pub(super) fn meant(&self, rule: &Listed) -> bool {
        let has = |comment: Option<&str>| (self.matches)(&rule.spec, comment);
        has(rule.comment.as_deref()) || rule.owners.iter().any(|owner| has(owner.comment.as_deref()))
    }

    /// Returns whether the rule that one covers is such a rule, or one of its owners has it.
    pub(super) fn meant_below(&self, rule: &Listed) -> bool {
        rule.covered().is_some_and(|covered| self.meant(&covered))
    }

    /// Returns whether a rule is meant as a whole, or its first owner is.
    pub(super) fn meant_alone(&self, rule: &Listed) -> bool {
        (self.matches)(&rule.spec, rule.comment.as_deref())
    }
}

/// The number of deleted rules, and of skipped lines.
#[derive(Debug, Serialize)]
pub(super) struct Deleted {
    pub(super) deleted: usize,
    pub(super) skipped: usize,
}

/// Reads the prefixes and deletes the rule of each of them, all or none.
pub(crate) fn delete(rules: &Rules<'_>, pins: &Path, output: Output) -> Result<Answer> {
    let (prefixes, Passed { skipped, .. }) = lines::prefixes(Purpose::Delete, rules.skip_bad)?;
    if prefixes.is_empty() {
        return nothing(output, NO_ADDRESS);
    }
    let mut instance = Instance::open(pins)?;
    let all = list::list(&instance.tables)?;
    let (mut change, mut missing, mut is_of_file) = (Change::default(), Vec::new(), false);
    for (prefix, line) in &prefixes {
        let target = Target::prefix(*prefix).of(rules.service);
        let same = of_sources(&all, target.sources);
        let has = |is_such: &dyn Fn(&Listed) -> bool| same.iter().any(|rule| rule.target == target && is_such(rule));
        if has(&|rule| rules.meant(rule)) {
            is_of_file |= has(&|rule| rule.origin == CONFIG && rules.meant_alone(rule));
            change.deleted.push(target);
            change.ended.extend(rules.owner.map(|owner| (target, owner)));
        } else if has(&|rule| rules.meant_below(rule)) {
            is_of_file |=
                has(&|rule| rule.covered().is_some_and(|rule| rule.origin == CONFIG && rules.meant_alone(&rule)));
            change.deleted_below.push(target);
            change.ended.extend(rules.owner.map(|owner| (target, owner)));
        } else if rules.lifts_bans && has(&|rule| rule.origin == BANNED) {
            change.lifted.push(target);
        } else {
            missing.push((
                target,
                Bad { line: *line, why: format!("{target} has no {}{}", rules.name, rules_text(same)) },
            ));
        }
    }
    missing.sort_unstable_by_key(|(_, bad)| bad.line);
    if !rules.if_exists {
        // Only these are printed.
        for (target, bad) in missing.iter_mut().take(SHOWN) {
            bad.why += &covering(&instance.tables, rules, *target)?;
        }
        lines::report(missing.iter().map(|(_, bad)| bad))?;
    }
    if !missing.is_empty() && !rules.skip_bad && !rules.if_exists {
        let lines = count(prefixes.len(), "line");
        let message =
            format!("{} of {lines} cannot be deleted: nothing was changed, --skip-bad skips them", missing.len());
        return nothing(output, &message);
    }
    let number = change.deleted.len() + change.deleted_below.len() + change.lifted.len();
    let deleted = Deleted { deleted: number, skipped: skipped + missing.len() };
    if deleted.deleted != 0 {
        let bar = bar(number);
        let outcome = ssh::change(&mut instance, &change, rules.force, &mut |done| bar.set_position(done as u64));
        bar.finish_and_clear();
        outcome?;
    }
    output.print(&deleted, |out| {
        writeln!(out, "{}: {} deleted{}", count(deleted.deleted, "line"), rules.name, skipped_text(deleted.skipped))?;
        if is_of_file && deleted.deleted != 0 { hint::of_file(out, pins) } else { Ok(()) }
    })?;
    Ok(match deleted.deleted {
        0 if rules.if_exists => Answer::Unchanged,
        0 => Answer::Negative,
        _ => Answer::Done,
    })
}

/// Returns the rules of exactly these sources. `all` is in order.
fn of_sources(all: &[Listed], sources: Sources) -> &[Listed] {
    let start = all.partition_point(|rule| rule.target.sources < sources);
    let end = all[start..].partition_point(|rule| rule.target.sources == sources);
    &all[start..start + end]
}

/// Returns which rule of this kind around a target decides about it, for the end of a line.
pub(super) fn covering(tables: &Tables, rules: &Rules<'_>, target: Target) -> Result<String> {
    let Some(rule) = around::narrowest_around(tables, target)?.filter(|rule| rules.meant(rule)) else {
        return Ok(String::new());
    };
    Ok(match around::filled_around(tables, target)? {
        Some((whole, left)) => format!(
            ": bans have filled {whole}, which is banned as a whole for {} (`ratelimit deny del {whole}` ends that)",
            units::write_duration(left)
        ),
        None => format!(": {} covers it, which has {}", rule.target, write::spec(&rule.spec)),
    })
}
