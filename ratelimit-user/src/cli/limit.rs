//! `ratelimit limit set | del | list`.

use std::{io::Write, path::Path, time::Duration};

use anyhow::{Result, bail};
use clap::Args;
use ratelimit_common::{
    limit::Limit,
    policy::{LIMIT, Policy},
    rule::{COMMAND, SSH},
};
use serde::Serialize;

use super::{
    Answer,
    output::{self, Output},
    ssh,
};
use crate::{
    dataplane::{
        Instance, host,
        rules::{self, Listed, Target},
        tables::Tables,
    },
    units::{self, ByteRate, PacketRate},
};

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Limit each source of CIDR, or each source that no rule concerns (default)
    Set {
        /// An address, a prefix, or `default`. An IPv6 prefix longer than that of a source is a source of its own
        #[arg(value_name = "CIDR|default")]
        target: Target,
        #[command(flatten)]
        rates: Rates,
        /// End by itself after this time: 90s, 10m, 2h, 7d
        #[arg(long = "for", value_name = "DURATION", value_parser = units::duration)]
        life: Option<Duration>,
        /// Even if that limits an SSH session of yours that is allowed everything now
        #[arg(long)]
        force: bool,
    },
    /// Delete the limit of CIDR, or of `default`
    Del {
        /// As it was set
        #[arg(value_name = "CIDR|default")]
        target: Target,
    },
    /// List the limits
    List,
}

/// The numbers of a limit.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct Rates {
    /// Packets that a source may send, from 1/d to 100M/s
    #[arg(long, value_name = "RATE")]
    pub(super) packets: Option<PacketRate>,
    /// Bytes that a source may send, whole frames counted, from 1B/s to 50GB/s
    #[arg(long, value_name = "RATE")]
    pub(super) bytes: Option<ByteRate>,
    /// Packets that may come at once (as 1,514 bytes each for a limit of bytes) [default: what the rate allows in its own unit of time]
    #[arg(long, value_name = "PACKETS")]
    pub(super) burst: Option<u64>,
}

impl Rates {
    /// The limit that is meant, if any.
    pub(super) fn limit(&self) -> Option<Limit> {
        let Self { packets, bytes, burst } = *self;
        let given = packets.is_some() || bytes.is_some() || burst.is_some();
        given.then(|| Limit { packets: packets.map(|rate| rate.0), bytes: bytes.map(|rate| rate.0), burst })
    }
}

/// One rule in output.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    source: String,
    service: &'static str,
    packets: Option<String>,
    bytes: Option<String>,
    burst: u64,
    /// Seconds.
    expires_in: Option<u64>,
    origin: &'static str,
}

impl Row {
    pub(super) fn of(rule: &Listed) -> Self {
        let given = &rule.policy.given;
        Self {
            source: rule.target.to_string(),
            service: "any",
            packets: output::rate(given.packets, given.packets_period).map(|rate| PacketRate(rate).to_string()),
            bytes: output::rate(given.bytes, given.bytes_period).map(|rate| ByteRate(rate).to_string()),
            burst: given.burst,
            expires_in: rule.expires_in.map(|left| left.as_secs()),
            origin: origin(rule.origin),
        }
    }

    fn cells(&self) -> [String; 6] {
        let dash = || "-".to_owned();
        [
            self.source.clone(),
            self.packets.clone().unwrap_or_else(dash),
            self.bytes.clone().unwrap_or_else(dash),
            self.burst.to_string(),
            expiry(self.expires_in),
            self.origin.to_owned(),
        ]
    }
}

/// A rule that was set, and what it has replaced.
#[derive(Debug, Serialize)]
pub(super) struct Change<R> {
    #[serde(flatten)]
    rule: R,
    replaced: Option<String>,
}

impl<R> Change<R> {
    pub(super) fn of(rule: R, replaced: Option<&Listed>) -> Self {
        Self { rule, replaced: replaced.map(|rule| output::policy(&rule.policy)) }
    }

    /// For the end of a line.
    pub(super) fn note(&self) -> String {
        self.replaced.as_ref().map_or_else(String::new, |replaced| format!(" (instead of: {replaced})"))
    }
}

/// How long a rule lives, for the end of a line.
pub(super) fn for_time(life: Option<Duration>) -> String {
    life.map_or_else(String::new, |life| format!(" for {}", units::write_duration(life)))
}

/// Seconds that are left of a rule, for people.
pub(super) fn expiry(seconds: Option<u64>) -> String {
    seconds.map_or_else(
        || "never".to_owned(),
        |seconds| format!("in {}", units::write_duration(Duration::from_secs(seconds))),
    )
}

/// The word for who made a rule.
pub(super) fn origin(origin: u8) -> &'static str {
    match origin {
        COMMAND => "command",
        SSH => "ssh",
        _ => "unknown",
    }
}

pub(super) fn run(command: &Command, pins: &Path, output: Output) -> Result<Answer> {
    host::check()?;
    match command {
        Command::Set { target, rates, life, force } => set(*target, rates, *life, *force, pins, output),
        Command::Del { target } => delete(*target, pins, output),
        Command::List => list(pins, output),
    }
}

fn set(
    target: Target,
    rates: &Rates,
    life: Option<Duration>,
    force: bool,
    pins: &Path,
    output: Output,
) -> Result<Answer> {
    let policy = rates.limit().unwrap_or_default().policy()?;
    if target == Target::Default && life.is_some() {
        bail!("the default limit cannot end by itself: leave --for away, or limit 0.0.0.0/0 and ::/0 for a time");
    }
    let mut instance = Instance::open(pins)?;
    let set = |tables: &mut Tables| rules::set(tables, target, &policy, life, COMMAND);
    let replaced = ssh::guarded(&mut instance.tables, target, force, set)?;
    let row = Row::of(&Listed { target, policy, expires_in: life, origin: COMMAND });
    let change = Change::of(row, replaced.as_ref());
    output.print(&change, |out| {
        let (policy, burst) = (output::policy(&policy), policy.given.burst);
        writeln!(out, "{target}: {policy} per source, burst {burst}{}{}", for_time(life), change.note())
    })?;
    Ok(Answer::Done)
}

fn delete(target: Target, pins: &Path, output: Output) -> Result<Answer> {
    let mut instance = Instance::open(pins)?;
    match rules::get(&instance.tables, target)? {
        Some(Listed { policy: Policy { kind: LIMIT, .. }, .. }) => rules::delete(&mut instance.tables, target)?,
        Some(rule) => {
            let word = output::policy(&rule.policy);
            return negative(
                output,
                &format!("{target} has no limit: it has the rule {word} (`ratelimit {word} del {target}`)"),
            );
        }
        None => return negative(output, &format!("{target} has no limit")),
    }
    output.print(&Deleted { deleted: target.to_string() }, |out| writeln!(out, "{target}: limit deleted"))?;
    Ok(Answer::Done)
}

fn list(pins: &Path, output: Output) -> Result<Answer> {
    let instance = Instance::open(pins)?;
    let limits = rules::list(&instance.tables)?;
    drop(instance);
    let rows: Vec<Row> = limits.iter().filter(|rule| rule.policy.kind == LIMIT).map(Row::of).collect();
    output.print(&rows, |out| {
        if rows.is_empty() {
            return writeln!(out, "no limits");
        }
        let cells: Vec<_> = rows.iter().map(Row::cells).collect();
        output::table(out, ["source", "packets", "bytes", "burst", "expires", "origin"], &cells)
    })?;
    Ok(Answer::Done)
}

/// What was deleted.
#[derive(Debug, Serialize)]
pub(super) struct Deleted {
    pub(super) deleted: String,
}

/// Says that there is nothing to do, with exit status 1.
pub(super) fn negative(output: Output, message: &str) -> Result<Answer> {
    #[derive(Serialize)]
    struct Nothing<'a> {
        deleted: Option<String>,
        message: &'a str,
    }
    output.print(&Nothing { deleted: None, message }, |out: &mut dyn Write| writeln!(out, "{message}"))?;
    Ok(Answer::Negative)
}
