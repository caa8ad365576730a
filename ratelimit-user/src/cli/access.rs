//! `ratelimit allow` and `ratelimit deny`: `add | del | list`.

use std::{path::Path, time::Duration};

use anyhow::Result;
use ratelimit_common::{policy::Policy, rule::COMMAND};
use serde::Serialize;

use super::{
    Answer,
    limit::{Deleted, expiry, negative, origin},
    output::{self, Output},
    ssh,
};
use crate::{
    dataplane::{
        Instance, host,
        rules::{self, Listed, Target},
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
        /// Even if this SSH session comes from there
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
        AllowCommand::Add { prefix } => ALLOW.add(*prefix, None, pins, output),
        AllowCommand::Del { prefix } => ALLOW.delete(*prefix, pins, output),
        AllowCommand::List => ALLOW.list(pins, output),
    }
}

pub(super) fn deny(command: &DenyCommand, pins: &Path, output: Output) -> Result<Answer> {
    match command {
        DenyCommand::Add { prefix, life, force } => {
            if !force {
                keeps_ssh_peer(*prefix, pins)?;
            }
            DENY.add(*prefix, *life, pins, output)
        }
        DenyCommand::Del { prefix } => DENY.delete(*prefix, pins, output),
        DenyCommand::List => DENY.list(pins, output),
    }
}

/// Refuses to deny the address that this SSH session comes from, unless a longer prefix allows it all the same.
fn keeps_ssh_peer(denied: Prefix, pins: &Path) -> Result<()> {
    let Some(peer) = ssh::peer().map(Prefix::host).filter(|peer| denied.contains(peer)) else { return Ok(()) };
    host::check()?;
    let instance = Instance::open(pins)?;
    let rules = rules::list(&instance.tables)?;
    let allows = |rule: &Listed| match rule.target {
        Target::Prefix(prefix) => {
            prefix.contains(&peer) && prefix.bits() > denied.bits() && rule.policy == Policy::ALLOWED
        }
        Target::Default => false,
    };
    anyhow::ensure!(
        rules.iter().any(allows),
        "{denied} has {peer} in it, from where this SSH session comes: `ratelimit allow add {peer}` first, or insist with --force"
    );
    Ok(())
}

impl Word {
    fn add(&self, prefix: Prefix, life: Option<Duration>, pins: &Path, output: Output) -> Result<Answer> {
        host::check()?;
        let mut instance = Instance::open(pins)?;
        let target = Target::Prefix(prefix);
        rules::set(&mut instance.tables, target, &self.policy, life, COMMAND)?;
        let row = Row::of(&Listed { target, policy: self.policy, expires_in: life, origin: COMMAND });
        output.print(&row, |out| match life {
            None => writeln!(out, "{prefix}: {}", self.name),
            Some(life) => writeln!(out, "{prefix}: {} for {}", self.name, units::write_duration(life)),
        })?;
        Ok(Answer::Done)
    }

    fn delete(&self, prefix: Prefix, pins: &Path, output: Output) -> Result<Answer> {
        host::check()?;
        let mut instance = Instance::open(pins)?;
        let target = Target::Prefix(prefix);
        match rules::get(&instance.tables, target)? {
            Some(rule) if rule.policy == self.policy => rules::delete(&mut instance.tables, target)?,
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
