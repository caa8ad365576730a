//! `ratelimit allow` and `ratelimit deny`: `add | del | list`.

use std::{path::Path, time::Duration};

use anyhow::Result;
use ratelimit_common::{policy::Policy, rule::COMMAND, service::Service};
use serde::Serialize;

use super::{
    Answer,
    limit::{Change, Deleted, expiry, for_time, negative, origin},
    output::{self, Output},
    ssh,
};
use crate::{
    dataplane::{
        Instance, host,
        rules::{self, Listed},
        target::Target,
        terms::Terms,
    },
    prefix::Prefix,
    service::ServiceName,
    units,
};

#[derive(Debug, clap::Subcommand)]
pub(super) enum AllowCommand {
    /// Let every source of CIDR pass, whatever it sends
    Add {
        /// An address or a prefix
        #[arg(value_name = "CIDR")]
        prefix: Prefix,
        /// Only packets of this service: tcp, udp/53, icmp, tcp-syn (new connections), or a protocol's number
        #[arg(long, value_name = "PROTO[/PORT]")]
        service: Option<ServiceName>,
    },
    /// Take that back
    Del {
        /// As it was added
        #[arg(value_name = "CIDR")]
        prefix: Prefix,
        /// As it was added
        #[arg(long, value_name = "PROTO[/PORT]")]
        service: Option<ServiceName>,
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
        /// An address or a prefix
        #[arg(value_name = "CIDR")]
        prefix: Prefix,
        /// Only packets of this service: tcp, udp/53, icmp, tcp-syn (new connections), or a protocol's number
        #[arg(long, value_name = "PROTO[/PORT]")]
        service: Option<ServiceName>,
        /// End by itself after this time: 90s, 10m, 2h, 7d
        #[arg(long = "for", value_name = "DURATION", value_parser = units::duration)]
        life: Option<Duration>,
        /// Even if that shuts out this SSH session
        #[arg(long)]
        force: bool,
    },
    /// Take that back
    Del {
        /// As it was added
        #[arg(value_name = "CIDR")]
        prefix: Prefix,
        /// As it was added
        #[arg(long, value_name = "PROTO[/PORT]")]
        service: Option<ServiceName>,
    },
    /// List what is denied
    List,
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
        AllowCommand::Add { prefix, service } => ALLOW.add(target(*prefix, *service), None, false, pins, output),
        AllowCommand::Del { prefix, service, force } => ALLOW.delete(target(*prefix, *service), *force, pins, output),
        AllowCommand::List => ALLOW.list(pins, output),
    }
}

pub(super) fn deny(command: &DenyCommand, pins: &Path, output: Output) -> Result<Answer> {
    match command {
        DenyCommand::Add { prefix, service, life, force } => {
            DENY.add(target(*prefix, *service), *life, *force, pins, output)
        }
        DenyCommand::Del { prefix, service } => DENY.delete(target(*prefix, *service), false, pins, output),
        DenyCommand::List => DENY.list(pins, output),
    }
}

fn target(prefix: Prefix, service: Option<ServiceName>) -> Target {
    Target::prefix(prefix).of(service.map_or(Service::Any, |service| service.0))
}

impl Word {
    fn add(&self, target: Target, life: Option<Duration>, force: bool, pins: &Path, output: Output) -> Result<Answer> {
        host::check()?;
        let mut instance = Instance::open(pins)?;
        let terms = Terms::from(self.policy);
        let set = |instance: &mut Instance| instance.set_rule(target, &terms, life, COMMAND);
        let replaced = ssh::guarded(&mut instance, target, force, set)?;
        let row = Row::of(&Listed { target, terms: terms.clone(), expires_in: life, origin: COMMAND });
        let change = Change::of(row, replaced.as_ref());
        output.print(&change, |out| writeln!(out, "{target}: {}{}{}", self.name, for_time(life), change.note()))?;
        Ok(Answer::Done)
    }

    fn delete(&self, target: Target, force: bool, pins: &Path, output: Output) -> Result<Answer> {
        host::check()?;
        let mut instance = Instance::open(pins)?;
        match rules::get(&instance.tables, target)? {
            Some(rule) if rule.terms.policy == self.policy => {
                ssh::guarded(&mut instance, target, force, |instance| instance.delete_rule(target))?;
            }
            _ => return negative(output, &format!("{target} has no rule {}", self.name)),
        }
        let deleted = Deleted { deleted: target.to_string() };
        output.print(&deleted, |out| writeln!(out, "{target}: no longer has the rule {}", self.name))?;
        Ok(Answer::Done)
    }

    fn list(&self, pins: &Path, output: Output) -> Result<Answer> {
        host::check()?;
        let instance = Instance::open(pins)?;
        let all = rules::list(&instance.tables)?;
        drop(instance);
        let rows: Vec<Row> = all.iter().filter(|rule| rule.terms.policy == self.policy).map(Row::of).collect();
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
