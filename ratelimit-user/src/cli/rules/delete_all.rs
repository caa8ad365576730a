//! Deletes the rules of all sources.

use std::path::Path;

use anyhow::Result;
use ratelimit_base::text::service::ServiceName;
use ratelimit_common::{identity::service::Service, rules::rule::CONFIG};
use ratelimit_daemon::ssh;
use ratelimit_dataplane::{
    Instance,
    rules::{batch::Change, list},
};

use super::{
    change,
    delete_many::{Deleted, Rules},
    feedback::bar,
};
use crate::cli::print::{
    answer::Answer,
    hint,
    output::{Output, count},
};

/// Deletes these rules, all or none: those of one service, or of all.
pub(super) fn delete(rules: &Rules<'_>, service: Option<Service>, pins: &Path, output: Output) -> Result<Answer> {
    let mut instance = Instance::open(pins)?;
    let (mut change, mut is_of_file) = (Change::default(), false);
    for rule in list::list(&instance.tables)? {
        if service.is_some_and(|service| service != rule.target.service) {
            continue;
        }
        if rules.meant(&rule) {
            change.deleted.push(rule.target);
            change.ended.extend(rules.owner.map(|owner| (rule.target, owner)));
            is_of_file |= rule.origin == CONFIG && rules.meant_alone(&rule);
        } else if rules.meant_below(&rule) {
            change.deleted_below.push(rule.target);
            change.ended.extend(rules.owner.map(|owner| (rule.target, owner)));
            is_of_file |= rule.covered().is_some_and(|rule| rule.origin == CONFIG && rules.meant_alone(&rule));
        }
    }
    let number = change.deleted.len() + change.deleted_below.len();
    if number == 0 {
        let of = service.map_or_else(String::new, |service| format!(" for {}", ServiceName(service)));
        return change::missing(output, &[format!("there is no {}{of}", rules.name)], false, rules.if_exists);
    }
    let bar = bar(number);
    let outcome = ssh::change(&mut instance, &change, rules.force, &mut |done| bar.set_position(done as u64));
    bar.finish_and_clear();
    outcome?;
    output.print(&Deleted { deleted: number, skipped: 0 }, |out| {
        writeln!(out, "{} deleted: {}", count(number, "rule"), rules.name)?;
        if is_of_file { hint::of_file(out, pins) } else { Ok(()) }
    })?;
    Ok(Answer::Done)
}
