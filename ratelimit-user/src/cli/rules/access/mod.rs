//! `ratelimit allow` and `ratelimit deny`: `add | del | list`.

mod row;

use std::{
    io::{self, Write as _},
    path::Path,
    time::Duration,
};

use anyhow::{Result, ensure};
use ratelimit_base::text::{prefix::Prefix, service::ServiceName, units};
use ratelimit_common::{identity::service::Service, limits::policy::Policy, rules::comment::Comment};
use ratelimit_daemon::edits::request::Request;
use ratelimit_dataplane::{
    Instance,
    rules::{
        list::{self, Listed},
        owners::Sharing,
        spec::RuleSpec,
        target::Target,
    },
    spared::{force, place::Place, renew, unapplied},
    sys::{host, signals},
};

use self::row::Row;
use super::{
    change::{self, InForce, Outcome, comment, missing},
    delete, delete_all,
    delete_many::{self, Rules},
    hits::{self, OfRules},
    set_many::{self, Fresh},
    sources_argument::{OneOrMany, listed},
};
use crate::cli::print::{
    answer::Answer,
    output::{self, Output, with_covered},
    source_row::HitsRow,
};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum AllowCommand {
    /// Let all packets of a prefix pass
    Add {
        #[command(flatten)]
        which: Addition,
        /// Delete the rule after this time: 90s, 10m, 2h, 7d
        #[arg(long = "for", value_name = "DURATION", value_parser = units::lifetime)]
        life: Option<Duration>,
        /// Add the rule even if it ends an allow of an SSH session that has no end
        #[arg(long)]
        force: bool,
    },
    /// Delete an allow rule
    Del {
        #[command(flatten)]
        which: Deletion,
        /// Delete the rule even if it is what allows an SSH session
        #[arg(long)]
        force: bool,
    },
    /// List the allow rules
    List(hits::Arguments),
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum DenyCommand {
    /// Drop all packets of a prefix
    Add {
        #[command(flatten)]
        which: Addition,
        /// Delete the rule after this time: 90s, 10m, 2h, 7d
        #[arg(long = "for", value_name = "DURATION", value_parser = units::lifetime)]
        life: Option<Duration>,
        /// Leave a rule deny that ends later, or never, as it is. Without this option, the new rule takes its place. A
        /// source that this host needs is named, and not denied. Not for standard input
        #[arg(long, conflicts_with = "skip_bad")]
        keep_longer: bool,
        /// Add the rule even if it blocks your SSH session, or replaces a rule allow. It then also denies what this host
        /// needs: its gateways, name servers, own addresses and networks
        #[arg(long)]
        force: bool,
    },
    /// Delete a deny rule, or end the ban of a source
    Del {
        #[command(flatten)]
        which: Deletion,
    },
    /// List the deny rules, and the bans
    List(hits::Arguments),
}

/// The rules to delete.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Deletion {
    /// Addresses or prefixes, exactly as they were added; or - to read prefixes from standard input, one per line
    #[arg(value_name = "CIDR|-", required_unless_present = "all")]
    prefixes: Vec<OneOrMany<Prefix>>,
    /// Delete only rules with this comment
    #[arg(long, value_name = "TEXT", value_parser = some_comment)]
    comment: Option<Comment>,
    /// Delete the rules of all prefixes that have the comment, and of all services unless `--service` is given
    #[arg(long, requires = "comment", conflicts_with_all = ["prefixes", "skip_bad"])]
    all: bool,
    /// Only packets of this service: tcp, udp or sctp, also with a port or a range of ports (udp/53, tcp/8000-8099);
    /// tcp-syn (new connections); icmp, gre, esp, ah, ipip; or a protocol number
    #[arg(long, value_name = "PROTO[/PORT[-PORT]]")]
    service: Option<ServiceName>,
    /// With -, skip lines that are invalid or have no such rule. Without this option, one such line stops the command
    /// before it deletes anything
    #[arg(long)]
    skip_bad: bool,
    /// Exit with status 0, too, if there is no such rule or ban
    #[arg(long)]
    if_exists: bool,
}

/// The rules to add.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Addition {
    /// Addresses or prefixes (0.0.0.0/0 is all of IPv4, ::/0 all of IPv6); or - to read prefixes from standard input,
    /// one per line
    #[arg(value_name = "CIDR|-", required = true)]
    prefixes: Vec<OneOrMany<Prefix>>,
    /// Only packets of this service: tcp, udp or sctp, also with a port or a range of ports (udp/53, tcp/8000-8099);
    /// tcp-syn (new connections); icmp, gre, esp, ah, ipip; or a protocol number
    #[arg(long, value_name = "PROTO[/PORT[-PORT]]")]
    service: Option<ServiceName>,
    /// One line of at most 64 bytes, which lists and `save` show. An empty text removes it. Without this option, a rule
    /// that is there already keeps its comment
    #[arg(long, value_name = "TEXT", value_parser = comment)]
    comment: Option<Comment>,
    /// With -, skip lines that are invalid or repeat another line. Without this option, one such line stops the command
    /// before it changes anything
    #[arg(long)]
    skip_bad: bool,
}

/// A verdict for all packets of a source: its name and its policy.
struct Verdict {
    name: &'static str,
    policy: Policy,
}

const ALLOW: Verdict = Verdict { name: "allow", policy: Policy::ALLOWED };
const DENY: Verdict = Verdict { name: "deny", policy: Policy::DENIED };

pub(crate) fn allow(command: &AllowCommand, pins: &Path, output: Output) -> Result<Answer> {
    match command {
        AllowCommand::Add { which, life, force } => ALLOW.add(which, *life, (*force, false), pins, output),
        AllowCommand::Del { which, force } => ALLOW.delete(which, *force, pins, output),
        AllowCommand::List(hits) => ALLOW.list(*hits, pins, output),
    }
}

pub(crate) fn deny(command: &DenyCommand, pins: &Path, output: Output) -> Result<Answer> {
    match command {
        DenyCommand::Add { which, life, keep_longer, force } => {
            DENY.add(which, *life, (*force, *keep_longer), pins, output)
        }
        DenyCommand::Del { which } => DENY.delete(which, false, pins, output),
        DenyCommand::List(hits) => DENY.list(*hits, pins, output),
    }
}

/// Removes the prefixes that this host spares, and returns a line for each.
fn not_denied(places: &[Place], prefixes: &mut Vec<Prefix>) -> Vec<String> {
    let line = |prefix: &mut Prefix| {
        let place = unapplied::around(places, *prefix)?;
        Some(format!("{prefix} is {}, to which no deny is applied: left out", force::is(*prefix, &place)))
    };
    let mut lines = Vec::new();
    prefixes.retain_mut(|prefix| line(prefix).map(|line| lines.push(line)).is_none());
    lines
}

/// Reads a comment. An empty one, as of a variable that is not set, would mean all rules.
fn some_comment(text: &str) -> Result<Comment, String> {
    if text.is_empty() {
        return Err("expected the text of a comment".to_owned());
    }
    comment(text).map_err(|error| error.to_string())
}

fn with_comment(comment: &str) -> String {
    format!(" with the comment {comment:?}")
}

impl Verdict {
    /// Returns whether a rule has this verdict. A ban counts as a deny.
    fn is_verdict_of(&self, spec: &RuleSpec) -> bool {
        self.is_rule_of(spec) || self.policy == Policy::DENIED && spec.policy == Policy::BANNED
    }

    /// Returns the same without bans.
    fn is_rule_of(&self, spec: &RuleSpec) -> bool {
        spec.policy == self.policy || self.policy == Policy::DENIED && spec.policy == Policy::FORCED
    }

    fn add(
        &self,
        which: &Addition,
        life: Option<Duration>,
        (force, keeps_longer): (bool, bool),
        pins: &Path,
        output: Output,
    ) -> Result<Answer> {
        host::check()?;
        let Addition { prefixes, service, comment, skip_bad } = which;
        let (service, comment) = (service.map_or(Service::Any, |service| service.0), *comment);
        let spec = RuleSpec::from(self.policy);
        let Some((mut prefixes, cuts)) = listed(prefixes, *skip_bad)? else {
            ensure!(!keeps_longer, "--keep-longer needs prefixes as arguments, and not standard input");
            let rule = set_many::Rule {
                service,
                fresh: Fresh { spec: Ok(spec), comment },
                merged: None,
                life,
                force,
                skip_bad: *skip_bad,
                text: self.name,
            };
            return set_many::set(&rule, pins, output);
        };
        let mut instance = Instance::open(pins)?;
        let kept = if keeps_longer { self.longer(&instance, &prefixes, service, (life, comment))? } else { Vec::new() };
        prefixes.retain(|prefix| kept.iter().all(|rule| rule.target != Target::prefix(*prefix).of(service)));
        let places = renew::in_force(&instance.tables)?;
        if keeps_longer && !force {
            // The program that bans must not fail for what this host needs.
            let spared = not_denied(&places, &mut prefixes);
            if prefixes.is_empty() && kept.is_empty() {
                return missing(output, &spared, spared.len() > 1, true);
            }
            signals::let_through(|| spared.iter().try_for_each(|line| writeln!(io::stderr(), "ratelimit: {line}")))?;
        }
        let request = |prefix: &Prefix| {
            let target = Target::prefix(*prefix).of(service);
            let spec = if force { force::forced(&spec, &places, *prefix) } else { spec.clone() };
            Request { target, spec, life, comment, keeps_throttle: false }
        };
        let Outcome { mut set, notes } = match prefixes.as_slice() {
            [] => Outcome { set: Vec::new(), notes: Vec::new() },
            prefixes => {
                let sharing = if keeps_longer { Sharing::Any } else { Sharing::Named };
                change::set_shared(&mut instance, prefixes.iter().map(request).collect(), force, sharing)?
            }
        };
        set.extend(kept.into_iter().map(InForce::kept));
        change::print(&instance, &set, (&cuts, &notes), Row::of, &|_| self.name.to_owned(), life, output)
    }

    /// Returns the rules of these prefixes that have this verdict from this owner for as long or for longer.
    fn longer(
        &self,
        instance: &Instance,
        prefixes: &[Prefix],
        service: Service,
        (life, comment): (Option<Duration>, Option<Comment>),
    ) -> Result<Vec<Listed>> {
        let comment = comment.as_ref().and_then(Comment::get);
        let mut longer = Vec::new();
        for prefix in prefixes {
            let rule = list::get(&instance.tables, Target::prefix(*prefix).of(service))?;
            let is_longer = |left: Option<Duration>| match (left, life) {
                (None, _) => true,
                (Some(left), Some(life)) => left >= life,
                (Some(_), None) => false,
            };
            let keeps = |rule: &Listed| {
                let owners = rule.owners.iter().map(|owner| (owner.comment.as_deref(), owner.expires_in));
                let mut owners = owners.chain([(rule.comment.as_deref(), rule.expires_in)]);
                owners.any(|(owner, left)| owner == comment && is_longer(left))
            };
            longer.extend(rule.filter(|rule| self.is_rule_of(&rule.spec) && keeps(rule)));
        }
        Ok(longer)
    }

    fn delete(&self, which: &Deletion, force: bool, pins: &Path, output: Output) -> Result<Answer> {
        host::check()?;
        let Deletion { prefixes, comment, all, service, skip_bad, if_exists } = which;
        let (only, skip_bad, if_exists) = (service.map(|service| service.0), *skip_bad, *if_exists);
        let service = only.unwrap_or(Service::Any);
        let comment = comment.as_ref().and_then(Comment::get);
        let name = &format!("rule {}{}", self.name, comment.map_or_else(String::new, with_comment));
        let matches = &|spec: &RuleSpec, has: Option<&str>| {
            self.is_rule_of(spec) && comment.is_none_or(|comment| has == Some(comment))
        };
        let lifts_bans = self.policy == Policy::DENIED && comment.is_none();
        let owner = which.comment.filter(|_| self.policy == Policy::DENIED);
        let rules = Rules { service, force, skip_bad, if_exists, name, matches, owner, lifts_bans };
        if *all {
            return delete_all::delete(&rules, only, pins, output);
        }
        let Some((prefixes, cuts)) = listed(prefixes, skip_bad)? else {
            return delete_many::delete(&rules, pins, output);
        };
        let targets: Vec<_> = prefixes.iter().map(|prefix| Target::prefix(*prefix).of(service)).collect();
        delete::delete(&rules, &targets, &cuts, &format!("no longer has the {name}"), pins, output)
    }

    fn list(&self, hits: hits::Arguments, pins: &Path, output: Output) -> Result<Answer> {
        host::check()?;
        let instance = Instance::open(pins)?;
        let all = list::list(&instance.tables)?;
        let hits = OfRules::read(hits, &instance.tables)?;
        let row = |(rule, covered_by): (Listed, Option<String>)| {
            let hits = hits.of(rule.target, covered_by.is_some());
            Row::of(&rule).with(covered_by, hits)
        };
        let rows: Vec<Row> = with_covered(&all, |spec| self.is_verdict_of(spec)).into_iter().map(row).collect();
        drop(hits);
        drop(instance);
        output.print(&rows, |out| {
            if rows.is_empty() {
                let nothing = match self.policy == Policy::DENIED {
                    true => "no rule denies a source, and no source is banned",
                    false => "no rule allows a source",
                };
                return writeln!(out, "{nothing}");
            }
            let cells: Vec<_> = rows.iter().map(Row::cells).collect();
            let [passed, dropped, would_drop] = HitsRow::HEAD;
            let head = ["source", "service", "expires", "origin", "comment", passed, dropped, would_drop];
            output::table(out, head, &cells)
        })?;
        Ok(Answer::Done)
    }
}
