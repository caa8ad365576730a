//! `ratelimit allow` and `ratelimit deny`: `add | del | list`.

use std::{path::Path, time::Duration};

use anyhow::Result;
use ratelimit_common::{policy::Policy, rule::COMMAND};
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
        rules::{self, Listed, Target},
        tables::Tables,
    },
    prefix::Prefix,
    units,
};

#[derive(Debug, clap::Subcommand)]
pub(super) enum AllowCommand {
    /// Let every source of CIDR pass, whatever it sends
    Add {
        /// An address or a prefix
        #[arg(value_name = "CIDR")]
        prefix: Prefix,
    },
    /// Take that back
    Del {
        /// As it was added
        #[arg(value_name = "CIDR")]
        prefix: Prefix,
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
    /// Seconds.
    expires_in: Option<u64>,
    origin: &'static str,
}

impl Row {
    fn of(rule: &Listed) -> Self {
        Self {
            source: rule.target.to_string(),
            expires_in: rule.expires_in.map(|left| left.as_secs()),
            origin: origin(rule.origin),
        }
    }
}

pub(super) fn allow(command: &AllowCommand, pins: &Path, output: Output) -> Result<Answer> {
    match command {
        AllowCommand::Add { prefix } => ALLOW.add(*prefix, None, false, pins, output),
        AllowCommand::Del { prefix, force } => ALLOW.delete(*prefix, *force, pins, output),
        AllowCommand::List => ALLOW.list(pins, output),
    }
}

pub(super) fn deny(command: &DenyCommand, pins: &Path, output: Output) -> Result<Answer> {
    match command {
        DenyCommand::Add { prefix, life, force } => DENY.add(*prefix, *life, *force, pins, output),
        DenyCommand::Del { prefix } => DENY.delete(*prefix, false, pins, output),
        DenyCommand::List => DENY.list(pins, output),
    }
}

impl Word {
    fn add(&self, prefix: Prefix, life: Option<Duration>, force: bool, pins: &Path, output: Output) -> Result<Answer> {
        host::check()?;
        let mut instance = Instance::open(pins)?;
        let target = Target::Prefix(prefix);
        let set = |tables: &mut Tables| rules::set(tables, target, &self.policy, life, COMMAND);
        let replaced = ssh::guarded(&mut instance.tables, target, force, set)?;
        let row = Row::of(&Listed { target, policy: self.policy, expires_in: life, origin: COMMAND });
        let change = Change::of(row, replaced.as_ref());
        output.print(&change, |out| writeln!(out, "{prefix}: {}{}{}", self.name, for_time(life), change.note()))?;
        Ok(Answer::Done)
    }

    fn delete(&self, prefix: Prefix, force: bool, pins: &Path, output: Output) -> Result<Answer> {
        host::check()?;
        let mut instance = Instance::open(pins)?;
        let target = Target::Prefix(prefix);
        match rules::get(&instance.tables, target)? {
            Some(rule) if rule.policy == self.policy => {
                ssh::guarded(&mut instance.tables, target, force, |tables| rules::delete(tables, target))?;
            }
            _ => return negative(output, &format!("{prefix} has no rule {}", self.name)),
        }
        let deleted = Deleted { deleted: prefix.to_string() };
        output.print(&deleted, |out| writeln!(out, "{prefix}: no longer has the rule {}", self.name))?;
        Ok(Answer::Done)
    }

    fn list(&self, pins: &Path, output: Output) -> Result<Answer> {
        host::check()?;
        let instance = Instance::open(pins)?;
        let all = rules::list(&instance.tables)?;
        drop(instance);
        let rows: Vec<Row> = all.iter().filter(|rule| rule.policy == self.policy).map(Row::of).collect();
        output.print(&rows, |out| {
            if rows.is_empty() {
                return writeln!(out, "no source has the rule {}", self.name);
            }
            let cells: Vec<_> =
                rows.iter().map(|row| [row.source.clone(), expiry(row.expires_in), row.origin.to_owned()]).collect();
            output::table(out, ["source", "expires", "origin"], &cells)
        })?;
        Ok(Answer::Done)
    }
}
