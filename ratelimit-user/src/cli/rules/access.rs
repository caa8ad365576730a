//! `ratelimit allow` and `ratelimit deny`: `add | del | list`.

use std::{path::Path, time::Duration};

use anyhow::{Result, ensure};
use ratelimit_common::{identity::service::Service, limits::policy::Policy};
use serde::Serialize;

use super::{
    change::{self, Change, Deleted, hints, negative, other_rules},
    delete_many, set_many,
    sources_argument::{NO_LIST, OneOrMany},
};
use crate::{
    cli::print::{
        answer::Answer,
        output::{self, Output, covers, expiry, origin},
    },
    dataplane::{
        Instance,
        rules::{
            list::{self, Listed},
            spec::RuleSpec,
            target::Target,
        },
        sys::host,
    },
    ssh,
    text::prefix::Prefix,
    text::service::ServiceName,
    text::units,
};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum AllowCommand {
    /// Let all packets of a prefix pass
    Add {
        #[command(flatten)]
        which: Addition,
        /// Delete the rule after this time: 90s, 10m, 2h, 7d
        #[arg(long = "for", value_name = "DURATION", value_parser = units::duration)]
        life: Option<Duration>,
    },
    /// Delete an allow rule
    Del {
        #[command(flatten)]
        which: Deletion,
        /// Delete the rule even if that blocks your SSH session
        #[arg(long)]
        force: bool,
    },
    /// List the allow rules
    List,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum DenyCommand {
    /// Drop all packets of a prefix
    Add {
        #[command(flatten)]
        which: Addition,
        /// Delete the rule after this time: 90s, 10m, 2h, 7d
        #[arg(long = "for", value_name = "DURATION", value_parser = units::duration)]
        life: Option<Duration>,
        /// Add the rule even if it blocks your SSH session, or replaces a rule allow
        #[arg(long)]
        force: bool,
    },
    /// Delete a deny rule, or end the ban of a source
    Del {
        #[command(flatten)]
        which: Deletion,
    },
    /// List the deny rules, and the bans
    List,
}

/// The rules to delete.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Deletion {
    /// Address or prefix, exactly as it was added; or - to read prefixes from standard input, one per line
    #[arg(value_name = "CIDR|-")]
    prefix: OneOrMany<Prefix>,
    /// Only packets of this service: tcp, udp or sctp, also with a port or a range of ports (udp/53, tcp/8000-8099);
    /// tcp-syn (new connections); icmp, gre, esp, ah, ipip; or a protocol number
    #[arg(long, value_name = "PROTO[/PORT[-PORT]]")]
    service: Option<ServiceName>,
    /// With -, skip lines that are invalid or have no such rule. Without this option, one such line stops the command
    /// before it deletes anything
    #[arg(long)]
    skip_bad: bool,
}

/// The rules to add.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Addition {
    /// Address or prefix (0.0.0.0/0 is all of IPv4, ::/0 all of IPv6); or - to read prefixes from standard input, one
    /// per line
    #[arg(value_name = "CIDR|-")]
    prefix: OneOrMany<Prefix>,
    /// Only packets of this service: tcp, udp or sctp, also with a port or a range of ports (udp/53, tcp/8000-8099);
    /// tcp-syn (new connections); icmp, gre, esp, ah, ipip; or a protocol number
    #[arg(long, value_name = "PROTO[/PORT[-PORT]]")]
    service: Option<ServiceName>,
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

/// A rule in the output.
#[derive(Debug, Serialize)]
struct Row {
    source: String,
    service: String,
    /// Seconds.
    expires_in: Option<u64>,
    /// The rule that returns when this one expires.
    covers: Option<String>,
    origin: &'static str,
}

impl Row {
    fn of(rule: &Listed) -> Self {
        Self {
            source: rule.target.sources.to_string(),
            service: ServiceName(rule.target.service).to_string(),
            expires_in: rule.expires_in.map(|left| left.as_secs()),
            covers: covers(rule),
            origin: origin(rule.origin),
        }
    }

    fn cells(&self) -> [String; 4] {
        [
            self.source.clone(),
            self.service.clone(),
            expiry(self.expires_in, self.covers.as_deref()),
            self.origin.to_owned(),
        ]
    }
}

pub(crate) fn allow(command: &AllowCommand, pins: &Path, output: Output) -> Result<Answer> {
    match command {
        AllowCommand::Add { which, life } => ALLOW.add(which, *life, false, pins, output),
        AllowCommand::Del { which, force } => ALLOW.delete(which, *force, pins, output),
        AllowCommand::List => ALLOW.list(pins, output),
    }
}

pub(crate) fn deny(command: &DenyCommand, pins: &Path, output: Output) -> Result<Answer> {
    match command {
        DenyCommand::Add { which, life, force } => DENY.add(which, *life, *force, pins, output),
        DenyCommand::Del { which } => DENY.delete(which, false, pins, output),
        DenyCommand::List => DENY.list(pins, output),
    }
}

impl Verdict {
    /// Returns whether a rule has this verdict. A ban counts as a deny.
    fn is_verdict_of(&self, rule: &Listed) -> bool {
        rule.spec.policy == self.policy || self.policy == Policy::DENIED && rule.spec.policy == Policy::BANNED
    }

    fn add(
        &self,
        which: &Addition,
        life: Option<Duration>,
        force: bool,
        pins: &Path,
        output: Output,
    ) -> Result<Answer> {
        host::check()?;
        let Addition { prefix, service, skip_bad } = *which;
        let service = service.map_or(Service::Any, |service| service.0);
        let prefix = match prefix {
            OneOrMany::One(prefix) => prefix,
            OneOrMany::Many => {
                let spec = RuleSpec::from(self.policy);
                return set_many::set(
                    &set_many::Rule { service, spec, life, force, skip_bad, text: self.name },
                    pins,
                    output,
                );
            }
        };
        ensure!(!skip_bad, NO_LIST);
        let target = Target::prefix(prefix).of(service);
        let mut instance = Instance::open(pins)?;
        let spec = RuleSpec::from(self.policy);
        let (set, replaced) = change::set(&mut instance, target, spec, life, force)?;
        let change = Change::of(Row::of(&set), &set, replaced.as_ref(), life);
        let hints = hints(&instance, target)?;
        output.print(&change, |out| {
            writeln!(out, "{target}: {}{}", self.name, change.end())?;
            hints.iter().try_for_each(|hint| writeln!(out, "{hint}"))
        })?;
        Ok(Answer::Done)
    }

    fn delete(&self, which: &Deletion, force: bool, pins: &Path, output: Output) -> Result<Answer> {
        host::check()?;
        let Deletion { prefix, service, skip_bad } = *which;
        let service = service.map_or(Service::Any, |service| service.0);
        let lifts_bans = self.policy == Policy::DENIED;
        let prefix = match prefix {
            OneOrMany::One(prefix) => prefix,
            OneOrMany::Many => {
                let name = &format!("rule {}", self.name);
                let matches = &|spec: &RuleSpec| spec.policy == self.policy;
                return delete_many::delete(
                    &delete_many::Rules { service, force, skip_bad, name, matches, lifts_bans },
                    pins,
                    output,
                );
            }
        };
        ensure!(!skip_bad, NO_LIST);
        let target = Target::prefix(prefix).of(service);
        let mut instance = Instance::open(pins)?;
        let is_banned = lifts_bans && list::ban(&instance.tables, target)?.is_some();
        let found = list::get(&instance.tables, target)?;
        let is_meant = |spec: &RuleSpec| spec.policy == self.policy;
        let outcome = match found.as_ref().and_then(|rule| change::deletion(rule, is_meant)) {
            Some((deletion, then)) => {
                ssh::change(&mut instance, &deletion, force, &mut |_| {})?;
                format!("no longer has the rule {}{then}", self.name)
            }
            None if is_banned => {
                instance.lift_ban(target)?;
                "no longer banned".to_owned()
            }
            None => {
                let others = other_rules(&instance, target, found)?;
                return negative(output, &format!("{target} has no rule {}{others}", self.name));
            }
        };
        let deleted = Deleted { deleted: target.to_string() };
        output.print(&deleted, |out| writeln!(out, "{target}: {outcome}"))?;
        Ok(Answer::Done)
    }

    fn list(&self, pins: &Path, output: Output) -> Result<Answer> {
        host::check()?;
        let instance = Instance::open(pins)?;
        let all = list::list(&instance.tables)?;
        drop(instance);
        let rows: Vec<Row> = all.iter().filter(|rule| self.is_verdict_of(rule)).map(Row::of).collect();
        output.print(&rows, |out| {
            if rows.is_empty() {
                return writeln!(out, "no source has the rule {}", self.name);
            }
            let cells: Vec<_> = rows.iter().map(Row::cells).collect();
            output::table(out, ["source", "service", "expires", "origin"], &cells)
        })?;
        Ok(Answer::Done)
    }
}
