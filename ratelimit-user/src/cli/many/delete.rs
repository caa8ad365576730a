//! Deletes the rules of many sources.

use std::path::Path;

use anyhow::Result;
use ratelimit_common::{identity::service::Service, rules::rule::BANNED};
use serde::Serialize;

use super::{
    NO_ADDRESS, bar, left_out,
    lines::{self, Bad, Nested},
    nothing,
};
use crate::{
    cli::{
        Answer,
        change::words,
        output::{Output, count},
    },
    dataplane::{
        Instance,
        rules::{
            batch::Change,
            list::{self, Listed},
            target::{Sources, Target},
        },
    },
    ssh,
};

/// The rules that are to go.
pub(in crate::cli) struct Rules<'a> {
    pub(in crate::cli) service: Service,
    pub(in crate::cli) force: bool,
    /// Lines that are bad, or have no such rule, are left out.
    pub(in crate::cli) skip_bad: bool,
    /// What they are: `limit`.
    pub(in crate::cli) name: &'a str,
    /// Whether a rule is one of them.
    pub(in crate::cli) is_meant: &'a dyn Fn(&Listed) -> bool,
    /// Where a source has none but is banned, the ban goes.
    pub(in crate::cli) lifts_bans: bool,
}

#[derive(Debug, Serialize)]
struct Deleted {
    deleted: usize,
    skipped: usize,
}

/// Reads the prefixes, and deletes the rule of each of them.
pub(in crate::cli) fn delete(rules: &Rules<'_>, pins: &Path, output: Output) -> Result<Answer> {
    let (prefixes, skipped) = lines::prefixes(Nested::Good, rules.skip_bad)?;
    if prefixes.is_empty() {
        return nothing(output, NO_ADDRESS);
    }
    let mut instance = Instance::open(pins)?;
    let all = list::list(&instance.tables)?;
    let (mut change, mut missing) = (Change::default(), Vec::new());
    for (prefix, line) in &prefixes {
        let target = Target::prefix(*prefix).of(rules.service);
        let same = of_sources(&all, target.sources);
        let has = |is_meant: &dyn Fn(&Listed) -> bool| same.iter().any(|rule| rule.target == target && is_meant(rule));
        if has(rules.is_meant) {
            change.deleted.push(target);
        } else if rules.lifts_bans && has(&|rule| rule.origin == BANNED) {
            change.lifted.push(target);
        } else {
            missing.push(Bad { line: *line, why: format!("{target} has no {}{}", rules.name, words(same)) });
        }
    }
    missing.sort_unstable_by_key(|bad| bad.line);
    lines::report(&missing)?;
    if !missing.is_empty() && !rules.skip_bad {
        let lines = count(prefixes.len(), "line");
        let message =
            format!("{} of {lines} cannot be deleted: nothing was changed, --skip-bad leaves them out", missing.len());
        return nothing(output, &message);
    }
    let deleted = Deleted { deleted: change.deleted.len() + change.lifted.len(), skipped: skipped + missing.len() };
    if deleted.deleted != 0 {
        let bar = bar(change.deleted.len());
        let guard = ssh::Guard::of(&instance, rules.force)?;
        let outcome =
            instance.change(&change, &mut |done| bar.set_position(done as u64), &|tables| guard.check(tables));
        bar.finish_and_clear();
        outcome?;
    }
    output.print(&deleted, |out| {
        writeln!(out, "{}: {} deleted{}", count(deleted.deleted, "line"), rules.name, left_out(deleted.skipped))
    })?;
    Ok(if deleted.deleted == 0 { Answer::Negative } else { Answer::Done })
}

/// Those of exactly these sources, of rules in order.
fn of_sources(all: &[Listed], sources: Sources) -> &[Listed] {
    let start = all.partition_point(|rule| rule.target.sources < sources);
    let end = all[start..].partition_point(|rule| rule.target.sources == sources);
    &all[start..start + end]
}
