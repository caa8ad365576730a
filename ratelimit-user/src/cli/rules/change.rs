//! Changes of the rules that arguments name, and their output.

use std::{cell::LazyCell, io::Write, time::Duration};

use anyhow::Result;
use ratelimit_base::text::{service::ServiceName, units};
use ratelimit_common::{
    identity::{service::Service, text::TextError},
    limits::policy::Policy,
    maps::names::COMMENTS_MAX,
    rules::{
        comment::{Comment, MOST_OWNERS},
        rule::{BANNED, CONFIG, NEVER},
    },
};
use ratelimit_daemon::{
    config::outranked,
    controller::events::changes,
    edits::{
        filled::{self, Whole},
        request::{self, Request},
    },
    limit::write,
    ssh,
};
use ratelimit_dataplane::{
    Error, Instance,
    rules::{
        batch,
        list::{self, Listed, around},
        overlap::{self, Overlap},
        owners::Sharing,
        spec::RuleSpec,
        target::{Sources, Target},
    },
    spared::{
        force,
        place::{Place, PlaceRow},
        renew, unapplied,
    },
};
use serde::Serialize;

use super::sources_argument::Cuts;
use crate::cli::print::{answer::Answer, hint, output::Output};

/// Reads a comment.
pub(crate) fn comment(text: &str) -> Result<Comment, TextError> {
    Comment::new(text)
}

/// A rule that is in force after a change.
pub(crate) struct InForce {
    rule: Listed,
    /// The rule and the ban that it has replaced.
    replaced: Vec<Listed>,
    /// Whether it was there before, and was not changed.
    is_kept: bool,
    /// The prefix around it that is banned as a whole instead.
    whole: Option<String>,
}

/// What a change of rules has done.
pub(super) struct Outcome {
    pub(super) set: Vec<InForce>,
    /// What else the operator should know.
    pub(super) notes: Vec<String>,
}

impl InForce {
    /// Returns a rule that the change has left.
    pub(super) fn kept(rule: Listed) -> Self {
        Self { rule, replaced: Vec::new(), is_kept: true, whole: None }
    }
}

/// Sets rules, all or none.
pub(crate) fn set(instance: &mut Instance, requests: Vec<Request>, force: bool) -> Result<Vec<InForce>, Error> {
    Ok(set_shared(instance, requests, force, Sharing::default())?.set)
}

/// Does so, and shares the rules *deny* with others. Where bans fill a prefix, it is banned as a whole.
pub(super) fn set_shared(
    instance: &mut Instance,
    requests: Vec<Request>,
    force: bool,
    sharing: Sharing,
) -> Result<Outcome, Error> {
    let change = batch::Change { sharing, ..request::change(&requests, force) };
    let sessions = ssh::session().into_iter().chain(ssh::sessions());
    force::check(&instance.tables, &change, &sessions.map(ssh::Session::prefix).collect::<Vec<_>>())?;
    let (changed, wholes) = filled::change(instance, &change, force, &mut |_| {})?;
    let notes = notes(instance, &changed, &wholes);
    let replaced = changed.replaced;
    let rules = requests.into_iter().map(|Request { target, spec, life, .. }| {
        let replaced = replaced.iter().filter(|rule| rule.target == target).cloned().collect();
        // A short life can be over by now.
        let rule = list::get(&instance.tables, target)?.unwrap_or_else(|| Listed::set(target, spec, life));
        let whole = wholes.iter().find(|whole| whole.requested.contains(&target));
        let whole = whole.map(|whole| whole.target.sources.to_string());
        Ok(InForce { rule, replaced, is_kept: false, whole })
    });
    Ok(Outcome { set: rules.collect::<Result<_, Error>>()?, notes })
}

/// Returns what else a change has done, in words. What it has banned as a whole is recorded as a change, too.
pub(super) fn notes(instance: &Instance, changed: &batch::Changed, wholes: &[Whole]) -> Vec<String> {
    let mut notes: Vec<String> = wholes.iter().map(Whole::text).collect();
    for whole in wholes.iter().filter(|whole| whole.bans.is_some()) {
        // The bans themselves are in force.
        let _ = changes::record_as_operator(instance.pins(), &whole.text());
    }
    if changed.forgotten != 0 {
        notes.push(format!("a rule has at most {MOST_OWNERS} owners: the one that would end first is forgotten"));
    }
    if changed.uncommented != 0 {
        notes.push(format!("{COMMENTS_MAX} rules have a comment, the maximum: the rule acts without its comment"));
    }
    notes
}

/// Returns the rule in force, its end and what it has replaced, in a line. Also whether it is as requested and has
/// replaced nothing, so that its deletion undoes the change.
#[cfg(feature = "top")]
pub(crate) fn line(set: &InForce, text: &str, life: Option<Duration>) -> (String, bool) {
    let InForce { rule, replaced, .. } = set;
    let change = Change::of((), rule, replaced, life);
    let is_new = replaced.is_empty() && rule.owners.is_empty() && life.is_some() == rule.expires_in.is_some();
    (format!("{}: {text}{}", rule.target, change.end), is_new)
}

/// Prints rules that were set. `life` was requested for all of them.
pub(crate) fn print<R: Serialize>(
    instance: &Instance,
    set: &[InForce],
    (cuts, notes): (&Cuts, &[String]),
    row: fn(&Listed) -> R,
    text: &dyn Fn(&Listed) -> String,
    life: Option<Duration>,
    output: Output,
) -> Result<Answer> {
    let places = renew::in_force(&instance.tables)?;
    let changes: Vec<Change<R>> = set
        .iter()
        .map(|set| Change {
            given: cuts.written(set.rule.target.sources),
            whole: set.whole.clone(),
            notes: notes.to_vec(),
            not_applied_to: unapplied_to(&set.rule, &places).iter().map(PlaceRow::from).collect(),
            ..Change::of(row(&set.rule), &set.rule, &set.replaced, life.filter(|_| !set.is_kept))
        })
        .collect();
    let largest = LazyCell::new(|| hint::largest_frame(instance));
    let burst = |rule: &Listed| hint::short_burst(&rule.spec.policy, &largest).map(|hint| format!("  {hint}"));
    let hints = |rule: &Listed| {
        let burst = burst(rule).into_iter().collect();
        let others = [around(instance, rule)?, exceptions(instance, rule)?, other_services(instance, rule)?];
        Ok([others.concat(), spared(rule, &places), burst].concat())
    };
    let hints = set.iter().map(|set| hints(&set.rule)).collect::<Result<Vec<_>>>()?;
    let is_attached = !instance.attachments.is_empty();
    let is_of_file = set.iter().any(|set| set.replaced.iter().any(|rule| rule.origin == CONFIG));
    output.print_each(&changes, |out| {
        cuts.write(out)?;
        for ((InForce { rule, .. }, change), hints) in set.iter().zip(&changes).zip(&hints) {
            writeln!(out, "{}: {}{}", rule.target, text(rule), change.end)?;
            hints.iter().try_for_each(|hint| writeln!(out, "{hint}"))?;
        }
        notes.iter().try_for_each(|note| writeln!(out, "  {note}"))?;
        if !is_attached {
            writeln!(out, "{NOT_ATTACHED}")?;
        }
        if is_of_file { hint::of_rule(out, instance.pins()) } else { Ok(()) }
    })?;
    Ok(Answer::Done)
}

/// The hint where no packet meets a rule yet.
const NOT_ATTACHED: &str = "  not attached to any interface: the rule takes effect at the next `ratelimit attach`";

/// A rule that was set, and the rule that it replaced.
#[derive(Debug, Serialize)]
struct Change<R> {
    #[serde(flatten)]
    rule: R,
    replaced: Option<String>,
    /// The argument, if bits of its address beyond the prefix were cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    given: Option<String>,
    /// The prefix that is banned as a whole instead. Absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    whole: Option<String>,
    /// What else the command has done. Absent if there is nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    /// What this host spares of the sources of a deny.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_applied_to: Vec<PlaceRow>,
    /// When it expires and what it has replaced, for the end of a line.
    #[serde(skip)]
    end: String,
}

impl<R> Change<R> {
    /// `life` is what was requested of `set`, the rule in force.
    fn of(rule: R, set: &Listed, replaced: &[Listed], life: Option<Duration>) -> Self {
        let with_below = |rule: &Listed| {
            let below = rule.covers.as_ref().filter(|_| set.covers.is_none());
            let below = below.map_or_else(String::new, |below| format!(", and {} below it", write::spec(&below.spec)));
            before(rule, &set.spec) + &below
        };
        let all: Vec<String> = replaced.iter().map(with_below).collect();
        let replaced = (!all.is_empty()).then(|| all.join("; "));
        let covers = set.covers.as_ref().map(|covered| write::spec(&covered.spec));
        let mut end = match (life, set.expires_in) {
            (Some(life), None) if !is_endless(life) || !set.owners.is_empty() => {
                ", without an end as before".to_owned()
            }
            // What one owner has requested is not the end of the rule.
            (life, left) => expiry_text(if set.owners.is_empty() { life.or(left) } else { left }),
        };
        if let Some(covers) = &covers {
            end += &format!(", then {covers} again");
        }
        match (&set.comment, set.owners.is_empty()) {
            (_, false) => end += &format!(", owners {}", owners(set)),
            (Some(comment), true) => end += &format!(", comment {comment:?}"),
            (None, true) => {}
        }
        match &replaced {
            Some(replaced) if Some(replaced) != covers.as_ref() => end += &format!(" (replaced: {replaced})"),
            _ => {}
        }
        Self { rule, replaced, given: None, whole: None, notes: Vec::new(), not_applied_to: Vec::new(), end }
    }
}

/// Returns the owners of a rule, in words.
fn owners(rule: &Listed) -> String {
    let own = (rule.comment.as_deref(), None);
    let further = rule.owners.iter().map(|owner| (owner.comment.as_deref(), owner.expires_in));
    let text = |(comment, left): (Option<&str>, Option<Duration>)| {
        let comment = comment.map_or_else(|| "no comment".to_owned(), |comment| format!("{comment:?}"));
        comment + &left.map_or_else(String::new, |left| format!(" (in {})", units::write_duration(left)))
    };
    [own].into_iter().chain(further).map(text).collect::<Vec<_>>().join(", ")
}

/// Returns what a rule was before one with this spec took its place. The end is named if only that differs, and for a ban.
pub(crate) fn before(rule: &Listed, after: &RuleSpec) -> String {
    let is_end_new = rule.origin == BANNED || *rule.spec == *after;
    write::spec(&rule.spec) + &expiry_text(rule.expires_in.filter(|_| is_end_new))
}

/// Returns when a rule expires, for the end of a line.
pub(crate) fn expiry_text(life: Option<Duration>) -> String {
    let text = |life| match is_endless(life) {
        true => ENDLESS.to_owned(),
        false => format!(", expires in {}", units::write_duration(life)),
    };
    life.map_or_else(String::new, text)
}

/// Said of a time that is too long to be counted, for the end of a line.
pub(crate) const ENDLESS: &str = ", without an end: --for is longer than 584 years";

/// Returns whether a rule that lasts so long has no end.
pub(crate) fn is_endless(life: Duration) -> bool {
    batch::change::end(Some(life)) == NEVER
}

/// Prints that there is nothing to delete. The messages are a list if several rules were named. The answer is negative,
/// unless the operator has said `--if-exists`.
pub(crate) fn missing(output: Output, messages: &[String], is_list: bool, if_exists: bool) -> Result<Answer> {
    #[derive(Serialize)]
    struct Nothing<'a> {
        deleted: Option<String>,
        message: &'a str,
    }
    let all: Vec<_> = messages.iter().map(|message| Nothing { deleted: None, message }).collect();
    let text = |out: &mut dyn Write| messages.iter().try_for_each(|message| writeln!(out, "{message}"));
    let printed = if is_list { output.print(&all, text) } else { output.print_each(&all, text) };
    printed?;
    Ok(if if_exists { Answer::Unchanged } else { Answer::Negative })
}

/// Returns the rule *allow* around a rule that does not allow, in words. There is at most one.
fn around(instance: &Instance, rule: &Listed) -> Result<Vec<String>> {
    if rule.spec.policy == Policy::ALLOWED {
        return Ok(Vec::new());
    }
    let allow = around::allow_around(&instance.tables, rule.target)?;
    let text = |allow| format!("  inside {allow}, which has the rule allow: that no longer applies to {}", rule.target);
    Ok(allow.map(text).into_iter().collect())
}

/// Returns what this host spares of the sources of a deny.
fn unapplied_to(rule: &Listed, places: &[Place]) -> Vec<Place> {
    match rule.target.sources {
        Sources::Prefix(prefix) if rule.spec.policy == Policy::DENIED => unapplied::meeting(places, prefix),
        _ => Vec::new(),
    }
}

/// Returns the same in words.
fn spared(rule: &Listed, places: &[Place]) -> Vec<String> {
    let (all, Sources::Prefix(entry)) = (unapplied_to(rule, places), rule.target.sources) else { return Vec::new() };
    let line = || format!("  {}", unapplied::Unapplied { entry, places: all.clone() });
    (!all.is_empty()).then(line).into_iter().collect()
}

/// The number of narrower rules that text names. Further ones are counted.
const NARROWER: usize = 5;

/// Returns the different rules inside the prefix of a rule for all services. They still apply, because they are narrower.
fn exceptions(instance: &Instance, rule: &Listed) -> Result<Vec<String>> {
    if rule.target.service != Service::Any {
        return Ok(Vec::new());
    }
    let all = around::inside(&instance.tables, rule.target)?;
    let mut inside = all.iter().filter(|other| other.spec != rule.spec);
    let line = |other: &Listed| format!("  does not apply to {}: {}", other.target, write::spec(&other.spec));
    let named: Vec<String> = inside.by_ref().take(NARROWER).map(line).collect();
    let more =
        Some(inside.count()).filter(|more| *more > 0).map(|more| format!("  and not to {more} more narrower rules"));
    Ok(named.into_iter().chain(more).collect())
}

/// Returns what the rule and rules for other services with the same packets do to each other. Of rules for all services of
/// a prefix, [`exceptions`] has those inside.
pub(crate) fn other_services(instance: &Instance, rule: &Listed) -> Result<Vec<String>> {
    let [mut outranked, mut outranks] = [Vec::new(), Vec::new()];
    let is_said = rule.target.service == Service::Any && rule.target.sources != Sources::Default;
    for other in around::meeting(&instance.tables, rule.target)? {
        let is_new = overlap::cross(rule.target.service, other.target.service);
        let (target, words) = (other.target, write::spec(&other.spec));
        let more = match outranked::lets_more_through(&rule.spec.policy, &other.spec.policy) {
            true => ", and lets more through",
            false => "",
        };
        match overlap::overlap((rule.target, &rule.spec), (target, &other.spec)) {
            Overlap::Outranked if is_said && overlap::is_within(target.sources, rule.target.sources) => {}
            Overlap::Outranked if is_new => {
                outranked.push(format!("  does not apply to new connections: {target} has {words}"));
            }
            Overlap::Outranked => outranked.push(format!("  does not apply to {target}: {words}")),
            Overlap::Outranks if is_new => {
                outranks.push(format!("  applies to new connections in place of {target}: {words}{more}"));
            }
            Overlap::Outranks => outranks.push(format!("  applies in place of {target}: {words}{more}")),
            Overlap::None => {}
        }
    }
    let first = |mut lines: Vec<String>, what: &str| {
        let more = lines.len().saturating_sub(NARROWER);
        lines.truncate(NARROWER);
        lines.extend((more > 0).then(|| format!("  {what} {more} more rules")));
        lines
    };
    Ok([first(outranked, "and not to"), first(outranks, "and in place of")].concat())
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
