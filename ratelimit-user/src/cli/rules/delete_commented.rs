//! Deletes all rules that have a comment.

use std::path::Path;

use anyhow::Result;
use ratelimit_common::{identity::service::Service, rules::rule::CONFIG};
use serde::Serialize;

use super::{change, delete_many::Rules, feedback::bar};
use crate::{
    cli::print::{
        answer::Answer,
        hint,
        output::{Output, count},
    },
    dataplane::{
        Instance,
        rules::{batch::Change, list, spec::RuleSpec, target::Target},
    },
    ssh,
    text::prefix::Prefix,
};

/// Number of deleted rules.
#[derive(Debug, Serialize)]
struct Deleted {
    deleted: usize,
}

/// Which rules to delete.
pub(super) struct Commented<'a> {
    pub(super) comment: &'a str,
    /// Only those of these prefixes. Those of all sources if it is empty.
    pub(super) prefixes: &'a [Prefix],
    /// Only those of this service.
    pub(super) service: Option<Service>,
}

impl Commented<'_> {
    fn has(&self, target: Target) -> bool {
        let is_same = |prefix: &Prefix| Target::prefix(*prefix).sources == target.sources;
        self.service.is_none_or(|service| service == target.service)
            && (self.prefixes.is_empty() || self.prefixes.iter().any(is_same))
    }
}

/// Deletes these rules, all or none.
pub(super) fn delete(rules: &Rules<'_>, which: &Commented<'_>, pins: &Path, output: Output) -> Result<Answer> {
    let comment = which.comment;
    let mut instance = Instance::open(pins)?;
    let is_meant = |spec: &RuleSpec, has: Option<&str>| (rules.matches)(spec) && has == Some(comment);
    let (mut change, mut is_of_file) = (Change::default(), false);
    for rule in list::list(&instance.tables)? {
        if !which.has(rule.target) {
            continue;
        }
        let below = rule.covers.as_ref().filter(|below| is_meant(&below.spec, below.comment.as_deref()));
        if is_meant(&rule.spec, rule.comment.as_deref()) {
            change.deleted.push(rule.target);
            is_of_file |= rule.origin == CONFIG;
        } else if let Some(below) = below {
            change.deleted_below.push(rule.target);
            is_of_file |= below.origin == CONFIG;
        }
    }
    let number = change.deleted.len() + change.deleted_below.len();
    if number == 0 {
        let message = format!("no source has the {} with the comment {comment:?}", rules.name);
        return change::missing(output, &[message], false, rules.if_exists);
    }
    let bar = bar(number);
    let outcome = ssh::change(&mut instance, &change, rules.force, &mut |done| bar.set_position(done as u64));
    bar.finish_and_clear();
    outcome?;
    output.print(&Deleted { deleted: number }, |out| {
        writeln!(out, "{}: {} with the comment {comment:?} deleted", count(number, "source"), rules.name)?;
        if is_of_file { hint::of_file(out, pins) } else { Ok(()) }
    })?;
    Ok(Answer::Done)
}
