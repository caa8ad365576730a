//! Sets one rule for each prefix on standard input.

use std::{path::Path, time::Duration};

use anyhow::Result;
use ratelimit_common::{
    identity::service::Service,
    rules::rule::{COMMAND, NEVER},
};
use serde::Serialize;

use super::{
    change::expiry_text,
    feedback::{NO_ADDRESS, bar, nothing, skipped_text},
    lines::{self, Nested},
};
use crate::{
    cli::print::{
        answer::Answer,
        output::{Output, count},
    },
    dataplane::{
        Instance,
        rules::{
            batch::{Change, RequestedRule},
            spec::RuleSpec,
            target::Target,
        },
        sys::host,
    },
    ssh,
    text::prefix::Prefix,
};

/// What all the rules have in common.
pub(crate) struct Rule<'a> {
    pub(crate) service: Service,
    pub(crate) spec: RuleSpec,
    pub(crate) life: Option<Duration>,
    pub(crate) force: bool,
    /// Whether invalid lines are skipped.
    pub(crate) skip_bad: bool,
    /// The rule in words.
    pub(crate) text: &'a str,
}

#[derive(Debug, Serialize)]
struct Set {
    set: usize,
    /// How many of them replaced a different rule.
    replaced: usize,
    skipped: usize,
}

/// Reads the prefixes and sets the rule for each of them, all or none.
pub(crate) fn set(rule: &Rule<'_>, pins: &Path, output: Output) -> Result<Answer> {
    let (prefixes, skipped) = lines::prefixes(Nested::Bad, rule.skip_bad)?;
    if prefixes.is_empty() {
        return nothing(output, NO_ADDRESS);
    }
    let expires =
        rule.life.map_or(NEVER, |life| host::now().saturating_add(u64::try_from(life.as_nanos()).unwrap_or(NEVER)));
    let wish = |(prefix, _): &(Prefix, usize)| RequestedRule {
        target: Target::prefix(*prefix).of(rule.service),
        spec: 0,
        expires,
        origin: COMMAND,
    };
    let change =
        Change { specs: vec![rule.spec.clone()], rules: prefixes.iter().map(wish).collect(), ..Change::default() };
    let mut instance = Instance::open(pins)?;
    let bar = bar(change.rules.len());
    let outcome = {
        let guard = ssh::Guard::of(&instance, rule.force)?;
        instance.change(&change, &mut |done| bar.set_position(done as u64), &|tables| guard.check(tables))
    };
    bar.finish_and_clear();
    let set = Set { set: prefixes.len(), replaced: outcome?, skipped };
    output.print(&set, |out| {
        let replaced = match set.replaced {
            0 => String::new(),
            replaced => format!(" (replaced {})", count(replaced, "other rule")),
        };
        let life = expiry_text(rule.life);
        writeln!(out, "{}: {}{life}{replaced}{}", count(set.set, "rule"), rule.text, skipped_text(skipped))
    })?;
    Ok(Answer::Done)
}
