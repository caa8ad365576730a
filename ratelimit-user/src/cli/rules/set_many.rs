//! Sets one rule for each prefix on standard input.

use std::{
    collections::{HashMap, HashSet},
    io::{self, Write},
    path::Path,
    time::Duration,
};

use anyhow::{Result, anyhow, bail};
use ratelimit_base::text::{
    feed::{Bad, Purpose},
    prefix::Prefix,
    service::ServiceName,
};
use ratelimit_common::{
    identity::service::Service,
    limits::policy::Policy,
    rules::{
        comment::Comment,
        rule::{APPLICATION, BANNED, COMMAND},
    },
};
use ratelimit_daemon::{
    edits::{filled, request::Request},
    limit::write,
};
use ratelimit_dataplane::{
    Error, Instance,
    error::Overruled,
    rules::{
        batch::{Change, Changed, Protected, change},
        list::{self, Listed},
        spec::RuleSpec,
        target::Target,
    },
    spared::{
        place::Place,
        renew,
        spans::Spans,
        unapplied::{self, Found},
    },
};
use serde::Serialize;

use super::{
    change::{before, expiry_text, notes},
    feedback::{NO_ADDRESS, bar, nothing, skipped_text},
    lines::{self, Line, Passed},
};
use crate::cli::print::{
    answer::Answer,
    output::{Output, count},
};

/// The number of replaced rules that text shows. Further ones are counted.
const SHOWN: usize = 20;

/// The number of prefixes up to which their rules are looked up one by one.
const FEW: usize = 64;

/// Returns the rule of a target that has this one.
pub(crate) type Merge<'a> = dyn Fn(Target, &Listed) -> Result<Request> + 'a;

/// What all the rules have in common.
pub(crate) struct Rule<'a> {
    pub(crate) service: Service,
    /// The rule of a prefix without one.
    pub(crate) fresh: Fresh,
    /// Changes the rule of a prefix that has one. None replaces it.
    pub(crate) merged: Option<&'a Merge<'a>>,
    pub(crate) life: Option<Duration>,
    pub(crate) force: bool,
    /// Whether lines that are invalid or would overrule an allow are skipped.
    pub(crate) skip_bad: bool,
    /// The rule in words.
    pub(crate) text: &'a str,
}

/// A rule that goes by no other.
pub(crate) struct Fresh {
    /// The limit or verdict, or why there is none.
    pub(crate) spec: Result<RuleSpec, String>,
    pub(crate) comment: Option<Comment>,
}

#[derive(Debug, Serialize)]
struct Set {
    set: usize,
    /// How many were requested with an end, and stay without one as before.
    lasting: usize,
    /// The different rules that were in force before.
    replaced: Vec<Named>,
    /// The rules that have kept something of the limit before.
    kept: Vec<Named>,
    skipped: usize,
    /// Lines with bits of an address beyond its prefix, which were cut. Absent if there are none.
    #[serde(skip_serializing_if = "is_none")]
    cut: usize,
    /// What else the command has done. Absent if there is nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    /// The first denies that are not applied to what this host spares.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unapplied: Vec<unapplied::Row>,
}

/// Returns whether a number is 0.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_none(number: &usize) -> bool {
    *number == 0
}

/// A rule in words.
#[derive(Debug, Serialize)]
struct Named {
    source: String,
    service: String,
    rule: String,
}

impl Named {
    fn of(target: Target, rule: String) -> Self {
        Self { source: target.sources.to_string(), service: ServiceName(target.service).to_string(), rule }
    }

    /// Writes the first of them, and how many more there are.
    fn write(all: &[Self], was: &str, out: &mut dyn Write) -> io::Result<()> {
        for Self { source, service, rule } in all.iter().take(SHOWN) {
            let service = if service == "any" { String::new() } else { format!(" {service}") };
            writeln!(out, "  {source}{service}: {was}{rule}")?;
        }
        match all.len().checked_sub(SHOWN) {
            None | Some(0) => Ok(()),
            Some(more) => writeln!(out, "  and {more} more, which --json names"),
        }
    }
}

/// Reads the prefixes and sets the rule for each of them, all or none.
pub(crate) fn set(rule: &Rule<'_>, pins: &Path, output: Output) -> Result<Answer> {
    let (mut prefixes, Passed { mut skipped, cut }) = lines::prefixes(rule.purpose(), rule.skip_bad)?;
    if prefixes.is_empty() {
        return nothing(output, NO_ADDRESS);
    }
    let mut instance = Instance::open(pins)?;
    let existing = rule.existing(&prefixes, &instance)?;
    let places = renew::in_force(&instance.tables)?;
    let (mut request, bad) = rule.requests(&prefixes, &existing, &places);
    skipped += refuse(rule, bad, &mut prefixes, "cannot be changed")?;
    if prefixes.is_empty() {
        return nothing(output, "no line has a limit that can be changed: nothing was changed");
    }
    let mut outcome = apply(&mut instance, &request.change, rule.force);
    if let Err(Error::Allowed(overruled)) = outcome {
        let overruled: HashMap<&str, &Overruled> = overruled.iter().map(|each| (each.rule.as_str(), each)).collect();
        let reason =
            |prefix: Prefix| overruled.get(Target::prefix(prefix).of(rule.service).to_string().as_str()).copied();
        let bad = prefixes
            .iter()
            .filter_map(|(prefix, line)| Some((*prefix, Bad { line: *line, why: reason(*prefix)?.why() })))
            .collect();
        skipped += refuse(rule, bad, &mut prefixes, "would overrule a rule allow")?;
        if prefixes.is_empty() {
            return nothing(output, "every line would overrule a rule allow: nothing was changed");
        }
        request = rule.requests(&prefixes, &existing, &places).0;
        outcome = apply(&mut instance, &request.change, rule.force);
    }
    let (Changed { replaced, lasting, .. }, notes) = outcome?;
    // Most lists replace nothing.
    let rules = if replaced.is_empty() { &[] } else { request.change.rules.as_slice() };
    let specs: HashMap<Target, &RuleSpec> =
        rules.iter().map(|rule| (rule.target, &request.change.specs[rule.spec])).collect();
    let before =
        |rule: &Listed| specs.get(&rule.target).map_or_else(|| write::spec(&rule.spec), |after| before(rule, after));
    let replaced = replaced.iter().map(|rule| Named::of(rule.target, before(rule))).collect();
    let denied = prefixes.iter().map(|(prefix, _)| *prefix).filter(|_| rule.denies() && !rule.force);
    let found = Found::of(&places, denied);
    let unapplied = found.rows();
    let set =
        Set { set: request.change.rules.len(), lasting, replaced, kept: request.kept, skipped, cut, notes, unapplied };
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
        let kept = match set.kept.len() {
            0 => String::new(),
            kept => format!(" ({kept} with parts of the limit before)"),
        };
        let text = format!("{life}{lasting}{kept}{replaced}{}", skipped_text(skipped));
        writeln!(out, "{}: {}{text}", count(set.set, "rule"), rule.text)?;
        set.notes.iter().try_for_each(|note| writeln!(out, "  {note}"))?;
        found.lines(SHOWN).try_for_each(|line| writeln!(out, "  {line}"))?;
        Named::write(&set.kept, "", out)?;
        Named::write(&set.replaced, "was ", out)
    })?;
    Ok(Answer::Done)
}

/// Reports prefixes that cannot be used, and removes them. Returns their number.
///
/// # Errors
///
/// Fails if there are any, and they are not skipped.
fn refuse(rule: &Rule<'_>, mut bad: Vec<(Prefix, Bad)>, prefixes: &mut Vec<Line>, why: &str) -> Result<usize> {
    bad.sort_unstable_by_key(|(_, bad)| bad.line);
    lines::report(bad.iter().map(|(_, bad)| bad))?;
    if !bad.is_empty() && !rule.skip_bad {
        let force = if why.contains("allow") { ", --force sets them" } else { "" };
        let lines = count(prefixes.len(), "line");
        bail!("{} of {lines} {why}: nothing was changed, --skip-bad skips them{force}", bad.len());
    }
    let bad: HashSet<Prefix> = bad.into_iter().map(|(prefix, _)| prefix).collect();
    prefixes.retain(|(prefix, _)| !bad.contains(prefix));
    Ok(bad.len())
}

/// The requested change, and the rules in it that keep something.
struct Requests {
    change: Change,
    kept: Vec<Named>,
}

impl Rule<'_> {
    /// Returns whether it denies.
    fn denies(&self) -> bool {
        self.fresh.spec.as_ref().is_ok_and(|spec| spec.policy == Policy::DENIED)
    }

    fn purpose(&self) -> Purpose {
        let allows = self.fresh.spec.as_ref().is_ok_and(|spec| spec.policy == Policy::ALLOWED);
        if allows { Purpose::Allow } else { Purpose::Refuse }
    }

    /// Returns the rules that the prefixes have, if they matter.
    fn existing(&self, prefixes: &[Line], instance: &Instance) -> Result<HashMap<Target, Listed>> {
        if self.merged.is_none() {
            return Ok(HashMap::new());
        }
        let targets = prefixes.iter().map(|(prefix, _)| Target::prefix(*prefix).of(self.service));
        let rules: Vec<Listed> = if prefixes.len() > FEW {
            list::list(&instance.tables)?
        } else {
            let found = targets.map(|target| list::get(&instance.tables, target));
            found.filter_map(Result::transpose).collect::<Result<_, _>>()?
        };
        Ok(rules
            .into_iter()
            .filter(|rule| !matches!(rule.origin, BANNED | APPLICATION))
            .map(|rule| (rule.target, rule))
            .collect())
    }

    /// Returns the change for these prefixes, and the lines whose limit cannot be changed so.
    fn requests(
        &self,
        prefixes: &[Line],
        existing: &HashMap<Target, Listed>,
        places: &[Place],
    ) -> (Requests, Vec<(Prefix, Bad)>) {
        let protected = if self.force { Protected::None } else { Protected::Around };
        let mut change = Change { protected, keeps_comments: true, ..Change::default() };
        let (mut kept, mut bad, mut specs) = (Vec::new(), Vec::new(), HashMap::<RuleSpec, usize>::new());
        let fresh = self.fresh.spec.as_ref();
        if let Ok(spec) = fresh {
            change.specs.push(spec.clone());
            specs.insert(spec.clone(), 0);
        }
        let end = change::end(self.life);
        let forced = places.iter().filter(|_| self.denies() && self.force);
        let spans = Spans::of(forced.map(|place| place.prefix));
        for (prefix, line) in prefixes {
            let target = Target::prefix(*prefix).of(self.service);
            let old = existing.get(&target);
            let request = match (old.zip(self.merged), fresh) {
                (Some((old, merged)), _) => merged(target, old),
                (None, Ok(_)) => {
                    let place =
                        if spans.meet(*prefix) { place_of(Policy::FORCED.into(), &mut change, &mut specs) } else { 0 };
                    change.add(target, place, end, COMMAND, self.fresh.comment);
                    continue;
                }
                (None, Err(error)) => Err(anyhow!("{target} has no limit to change: {error}")),
            };
            match request {
                Ok(Request { target, spec, life, comment, keeps_throttle }) => {
                    change.awaits_capacity |= keeps_throttle;
                    if fresh != Ok(&spec) {
                        kept.push(Named::of(target, write::limit(&spec)));
                    }
                    let place = place_of(spec, &mut change, &mut specs);
                    change.add(target, place, change::end(life), COMMAND, comment);
                }
                Err(error) => bad.push((*prefix, Bad { line: *line, why: error.to_string() })),
            }
        }
        (Requests { change, kept }, bad)
    }
}

/// Returns the place of a spec among those of a change, which gets it if it has none like it.
fn place_of(spec: RuleSpec, change: &mut Change, places: &mut HashMap<RuleSpec, usize>) -> usize {
    *places.entry(spec).or_insert_with_key(|spec| {
        change.specs.push(spec.clone());
        change.specs.len() - 1
    })
}

fn apply(instance: &mut Instance, change: &Change, force: bool) -> Result<(Changed, Vec<String>), Error> {
    let bar = bar(change.rules.len());
    let outcome = filled::change(instance, change, force, &mut |done| bar.set_position(done as u64));
    bar.finish_and_clear();
    let (changed, wholes) = outcome?;
    let notes = notes(instance, &changed, &wholes);
    Ok((changed, notes))
}
