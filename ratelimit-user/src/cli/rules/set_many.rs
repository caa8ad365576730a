//! Sets one rule for each prefix on standard input.

use std::{collections::HashMap, path::Path, time::Duration};

use anyhow::{Result, bail};
use ratelimit_common::{
    identity::service::Service,
    rules::rule::{COMMAND, NEVER},
};
use serde::Serialize;

use super::{
    change::expiry_text,
    feedback::{NO_ADDRESS, bar, nothing, skipped_text},
    lines::{self, Line, Nested},
};
use crate::{
    cli::print::{
        answer::Answer,
        output::{Output, count},
    },
    dataplane::{
        Error, Instance,
        error::Overruled,
        rules::{
            batch::{Change, Changed, Protected, RequestedRule},
            list::Listed,
            spec::RuleSpec,
            target::Target,
        },
        sys::host,
    },
    limit::write,
    ssh,
    text::{feed::Bad, prefix::Prefix, service::ServiceName},
};

/// The number of replaced rules that text shows. Further ones are counted.
const SHOWN: usize = 20;

/// What all the rules have in common.
pub(crate) struct Rule<'a> {
    pub(crate) service: Service,
    pub(crate) spec: RuleSpec,
    pub(crate) life: Option<Duration>,
    pub(crate) force: bool,
    /// Whether lines that are invalid or would overrule an allow are skipped.
    pub(crate) skip_bad: bool,
    /// The rule in words.
    pub(crate) text: &'a str,
}

#[derive(Debug, Serialize)]
struct Set {
    set: usize,
    /// How many were requested with an end, and stay without one as before.
    lasting: usize,
    /// The different rules that were in force before.
    replaced: Vec<Replaced>,
    skipped: usize,
}

/// A rule that another one has replaced.
#[derive(Debug, Serialize)]
struct Replaced {
    source: String,
    service: String,
    rule: String,
}

impl Replaced {
    fn of(rule: &Listed) -> Self {
        Self {
            source: rule.target.sources.to_string(),
            service: ServiceName(rule.target.service).to_string(),
            rule: write::spec(&rule.spec),
        }
    }
}

/// Reads the prefixes and sets the rule for each of them, all or none.
pub(crate) fn set(rule: &Rule<'_>, pins: &Path, output: Output) -> Result<Answer> {
    let (prefixes, mut skipped) = lines::prefixes(Nested::Bad, rule.skip_bad)?;
    if prefixes.is_empty() {
        return nothing(output, NO_ADDRESS);
    }
    let mut change = rule.change(&prefixes);
    let mut instance = Instance::open(pins)?;
    let mut outcome = apply(&mut instance, &change, rule.force);
    if let Err(Error::Allowed(overruled)) = outcome {
        let overruled: HashMap<&str, &Overruled> = overruled.iter().map(|each| (each.rule.as_str(), each)).collect();
        let reason =
            |prefix: Prefix| overruled.get(Target::prefix(prefix).of(rule.service).to_string().as_str()).copied();
        let bad = prefixes.iter().filter_map(|(prefix, line)| Some(Bad { line: *line, why: reason(*prefix)?.why() }));
        let mut bad: Vec<Bad> = bad.collect();
        bad.sort_unstable_by_key(|bad| bad.line);
        lines::report(&bad)?;
        if !rule.skip_bad {
            bail!(
                "{} of {} would overrule a rule allow: nothing was changed, --skip-bad skips them, --force sets them",
                bad.len(),
                count(prefixes.len(), "line")
            );
        }
        skipped += bad.len();
        let left: Vec<_> = prefixes.into_iter().filter(|(prefix, _)| reason(*prefix).is_none()).collect();
        if left.is_empty() {
            return nothing(output, "every line would overrule a rule allow: nothing was changed");
        }
        change = rule.change(&left);
        outcome = apply(&mut instance, &change, rule.force);
    }
    let Changed { replaced, lasting } = outcome?;
    let set = Set { set: change.rules.len(), lasting, replaced: replaced.iter().map(Replaced::of).collect(), skipped };
    output.print(&set, |out| {
        let life = expiry_text(rule.life);
        let replaced = match set.replaced.len() {
            0 => String::new(),
            replaced => format!(" (replaced {})", count(replaced, "other rule")),
        };
        let lasting = match lasting {
            0 => String::new(),
            lasting => format!(" ({lasting} without an end as before)"),
        };
        let text = format!("{life}{lasting}{replaced}{}", skipped_text(skipped));
        writeln!(out, "{}: {}{text}", count(set.set, "rule"), rule.text)?;
        for Replaced { source, service, rule } in set.replaced.iter().take(SHOWN) {
            let service = if service == "any" { String::new() } else { format!(" {service}") };
            writeln!(out, "  {source}{service}: was {rule}")?;
        }
        match set.replaced.len().checked_sub(SHOWN) {
            None | Some(0) => Ok(()),
            Some(more) => writeln!(out, "  and {more} more, which --json names"),
        }
    })?;
    Ok(Answer::Done)
}

impl Rule<'_> {
    fn change(&self, prefixes: &[Line]) -> Change {
        let end = |life: Duration| host::now().saturating_add(u64::try_from(life.as_nanos()).unwrap_or(NEVER));
        let expires = self.life.map_or(NEVER, end);
        let requested = |(prefix, _): &Line| RequestedRule {
            target: Target::prefix(*prefix).of(self.service),
            spec: 0,
            expires,
            origin: COMMAND,
        };
        let protected = if self.force { Protected::None } else { Protected::Around };
        let rules = prefixes.iter().map(requested).collect();
        Change { specs: vec![self.spec.clone()], rules, protected, ..Change::default() }
    }
}

fn apply(instance: &mut Instance, change: &Change, force: bool) -> Result<Changed, Error> {
    let bar = bar(change.rules.len());
    let outcome = ssh::change(instance, change, force, &mut |done| bar.set_position(done as u64));
    bar.finish_and_clear();
    outcome
}
