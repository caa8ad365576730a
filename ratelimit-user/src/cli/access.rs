//! `ratelimit allow` and `ratelimit deny`: `add | del | list`.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use ratelimit_common::{identity::service::Service, limits::policy::Policy, rules::rule::COMMAND};
use serde::Serialize;

use super::{
    Answer,
    change::{Change, Deleted, for_time, negative, notes, others},
    many::{self, OneOrMany},
    output::{self, Output, expiry, origin},
};
use crate::{
    dataplane::{
        Instance,
        rules::{
            list::{self, Listed},
            spec::Terms,
            target::Target,
        },
        sys::host,
    },
    prefix::Prefix,
    service::ServiceName,
    ssh, units,
};

#[derive(Debug, clap::Subcommand)]
pub(super) enum AllowCommand {
    /// Let every source of CIDR pass, whatever it sends
    Add {
        #[command(flatten)]
        which: WhichMany,
        /// End by itself after this time: 90s, 10m, 2h, 7d
        #[arg(long = "for", value_name = "DURATION", value_parser = units::duration)]
        life: Option<Duration>,
    },
    /// Take that back
    Del {
        #[command(flatten)]
        which: WhichDeleted,
        /// Even if that shuts out this SSH session
        #[arg(long)]
        force: bool,
    },
    /// List what is allowed
    List,
}

#[derive(Debug, clap::Subcommand)]
pub(super) enum DenyCommand {
    /// Drop all that sources of CIDR send
    Add {
        #[command(flatten)]
        which: WhichMany,
        /// End by itself after this time: 90s, 10m, 2h, 7d
        #[arg(long = "for", value_name = "DURATION", value_parser = units::duration)]
        life: Option<Duration>,
        /// Even if that shuts out this SSH session
        #[arg(long)]
        force: bool,
    },
    /// Take that back
    Del {
        #[command(flatten)]
        which: WhichDeleted,
    },
    /// List what is denied
    List,
}

/// The packets that a rule is about, as it was added.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct WhichDeleted {
    /// An address or a prefix, as it was added; or - for many on standard input, one in each line
    #[arg(value_name = "CIDR|-")]
    prefix: OneOrMany<Prefix>,
    /// Only packets of this service: tcp, udp, sctp, each alone or with a port (udp/53); tcp-syn (new connections); icmp, gre, esp,
    /// ah, ipip; or a protocol's number
    #[arg(long, value_name = "PROTO[/PORT]")]
    service: Option<ServiceName>,
    /// With -, leave lines out that cannot be used, or have no such rule; without this nothing is deleted then
    #[arg(long)]
    skip_bad: bool,
}

/// The packets that a rule is to be about.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct WhichMany {
    /// An address or a prefix; 0.0.0.0/0 and ::/0 are everybody; or - for many on standard input, one in each line
    #[arg(value_name = "CIDR|-")]
    prefix: OneOrMany<Prefix>,
    /// Only packets of this service: tcp, udp, sctp, each alone or with a port (udp/53); tcp-syn (new connections); icmp, gre, esp,
    /// ah, ipip; or a protocol's number
    #[arg(long, value_name = "PROTO[/PORT]")]
    service: Option<ServiceName>,
    /// With -, leave lines out that cannot be used, or say what others say; without this nothing is changed then
    #[arg(long)]
    skip_bad: bool,
}

/// One of the two words, and the policy that it stands for.
struct Word {
    name: &'static str,
    policy: Policy,
}

const ALLOW: Word = Word { name: "allow", policy: Policy::ALLOWED };
const DENY: Word = Word { name: "deny", policy: Policy::DENIED };

/// One rule in output.
#[derive(Debug, Serialize)]
struct Row {
    source: String,
    service: String,
    /// Seconds.
    expires_in: Option<u64>,
    origin: &'static str,
}

impl Row {
    fn of(rule: &Listed) -> Self {
        Self {
            source: rule.target.sources.to_string(),
            service: ServiceName(rule.target.service).to_string(),
            expires_in: rule.expires_in.map(|left| left.as_secs()),
            origin: origin(rule.origin),
        }
    }

    fn cells(&self) -> [String; 4] {
        [self.source.clone(), self.service.clone(), expiry(self.expires_in), self.origin.to_owned()]
    }
}

pub(super) fn allow(command: &AllowCommand, pins: &Path, output: Output) -> Result<Answer> {
    match command {
        AllowCommand::Add { which, life } => ALLOW.add(which, *life, false, pins, output),
        AllowCommand::Del { which, force } => ALLOW.delete(which, *force, pins, output),
        AllowCommand::List => ALLOW.list(pins, output),
    }
}

pub(super) fn deny(command: &DenyCommand, pins: &Path, output: Output) -> Result<Answer> {
    match command {
        DenyCommand::Add { which, life, force } => DENY.add(which, *life, *force, pins, output),
        DenyCommand::Del { which } => DENY.delete(which, false, pins, output),
        DenyCommand::List => DENY.list(pins, output),
    }
}

impl Word {
    /// Whether a rule says this. A ban denies as well.
    fn is_meant(&self, rule: &Listed) -> bool {
        rule.terms.policy == self.policy || self.policy == Policy::DENIED && rule.terms.policy == Policy::BANNED
    }

    fn add(
        &self,
        which: &WhichMany,
        life: Option<Duration>,
        force: bool,
        pins: &Path,
        output: Output,
    ) -> Result<Answer> {
        host::check()?;
        let WhichMany { prefix, service, skip_bad } = *which;
        let service = service.map_or(Service::Any, |service| service.0);
        let prefix = match prefix {
            OneOrMany::One(prefix) => prefix,
            OneOrMany::Many => {
                let terms = Terms::from(self.policy);
                return many::set(&many::Rule { service, terms, life, force, skip_bad, text: self.name }, pins, output);
            }
        };
        ensure!(!skip_bad, many::NOT_MANY);
        let target = Target::prefix(prefix).of(service);
        let mut instance = Instance::open(pins)?;
        let terms = Terms::from(self.policy);
        let set = |instance: &mut Instance| instance.set_rule(target, &terms, life, COMMAND);
        let replaced = ssh::guarded(&mut instance, target, force, set)?;
        let row = Row::of(&Listed { target, terms: Arc::new(terms), expires_in: life, origin: COMMAND });
        let change = Change::of(row, replaced.as_ref(), life);
        let notes = notes(&instance, target)?;
        output.print(&change, |out| {
            writeln!(out, "{target}: {}{}{}", self.name, for_time(life), change.note())?;
            notes.iter().try_for_each(|note| writeln!(out, "{note}"))
        })?;
        Ok(Answer::Done)
    }

    fn delete(&self, which: &WhichDeleted, force: bool, pins: &Path, output: Output) -> Result<Answer> {
        host::check()?;
        let WhichDeleted { prefix, service, skip_bad } = *which;
        let service = service.map_or(Service::Any, |service| service.0);
        let lifts_bans = self.policy == Policy::DENIED;
        let prefix = match prefix {
            OneOrMany::One(prefix) => prefix,
            OneOrMany::Many => {
                let name = &format!("rule {}", self.name);
                let is_meant = &|rule: &Listed| rule.terms.policy == self.policy;
                return many::delete(
                    &many::Rules { service, force, skip_bad, name, is_meant, lifts_bans },
                    pins,
                    output,
                );
            }
        };
        ensure!(!skip_bad, many::NOT_MANY);
        let target = Target::prefix(prefix).of(service);
        let mut instance = Instance::open(pins)?;
        let is_banned = lifts_bans && list::ban(&instance.tables, target)?.is_some();
        let outcome = match list::get(&instance.tables, target)? {
            Some(rule) if rule.terms.policy == self.policy => {
                ssh::guarded(&mut instance, target, force, |instance| instance.delete_rule(target))?;
                format!("no longer has the rule {}", self.name)
            }
            _ if is_banned => {
                list::lift_ban(&mut instance.tables, target)?;
                "no longer banned".to_owned()
            }
            found => {
                let others = others(&instance, target, found)?;
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
        let rows: Vec<Row> = all.iter().filter(|rule| self.is_meant(rule)).map(Row::of).collect();
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
