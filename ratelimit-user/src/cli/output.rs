//! One writer for people, one for programs.

use std::{
    io::{self, BufWriter, Write},
    time::Duration,
};

use anyhow::Result;
use ratelimit_common::{
    limit::Rate,
    policy::{ALLOW, BAN, DENY, Policy},
    rule::{BANNED, COMMAND, SSH},
};
use serde::Serialize;

use crate::{
    dataplane::terms::{ParentLimit, Scope, Terms},
    units::{self, ByteRate, PacketRate},
};

/// How to print.
#[derive(Debug, Clone, Copy)]
pub(super) struct Output {
    /// JSON instead of text.
    pub(super) json: bool,
}

impl Output {
    /// Prints `value` as JSON, or what `text` writes.
    pub(super) fn print<T: Serialize>(
        self,
        value: &T,
        text: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<()> {
        let mut out = BufWriter::new(io::stdout().lock());
        if self.json {
            serde_json::to_writer(&mut out, value).map_err(io::Error::from)?;
            writeln!(out)?;
        } else {
            text(&mut out)?;
        }
        out.flush()?;
        Ok(())
    }
}

/// Packets and bytes, as every command prints them.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct Traffic {
    pub(super) packets: u64,
    pub(super) bytes: u64,
}

impl std::ops::AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

/// Writes rows in columns, numbers to the right.
pub(super) fn table<const N: usize>(out: &mut dyn Write, head: [&str; N], rows: &[[String; N]]) -> io::Result<()> {
    let width = |column: usize| {
        rows.iter().map(|row| row[column].chars().count()).chain([head[column].len()]).max().unwrap_or(0)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let numeric: [bool; N] =
        std::array::from_fn(|column| rows.iter().all(|row| row[column].parse::<u64>().is_ok()) && !rows.is_empty());
    for row in [&head.map(str::to_owned)].into_iter().chain(rows) {
        let mut line = String::new();
        for ((cell, width), numeric) in row.iter().zip(widths).zip(numeric) {
            line += &if numeric { format!("{cell:>width$}  ") } else { format!("{cell:<width$}  ") };
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// The terms of a rule in a few words.
pub(super) fn terms(terms: &Terms) -> String {
    let parents = terms.parents.iter().map(|limit| format!(", {}", parent(limit)));
    policy(&terms.policy) + &parents.collect::<String>() + &ban(&terms.policy)
}

/// The terms of a limit in a sentence.
pub(super) fn limit(terms: &Terms) -> String {
    let parents: Vec<_> = terms.parents.iter().map(parent).collect();
    let own = match terms.policy.given.burst {
        0 => format!("{} per source", policy(&terms.policy)),
        burst => format!("{} per source, burst {burst}", policy(&terms.policy)),
    };
    let own = own + &ban(&terms.policy);
    if parents.is_empty() { own } else { format!("{own}; together {}", parents.join(", ")) }
}

/// For how long who exceeds a limit is shut out, for the end of a phrase.
fn ban(policy: &Policy) -> String {
    match policy.ban {
        0 => String::new(),
        nanoseconds => format!(", ban {}", units::write_duration(Duration::from_nanos(nanoseconds))),
    }
}

/// A parent as it is given: `/24=20000/s`.
pub(super) fn parent(limit: &ParentLimit) -> String {
    let rates = policy(&limit.policy).replace(", ", ",");
    match limit.scope {
        Scope::Prefix(_, bits) => format!("/{}={rates}", bits.0),
        Scope::Interface => format!("interface={rates}"),
        Scope::All => format!("all={rates}"),
    }
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
        BANNED => "ban",
        _ => "unknown",
    }
}

/// A policy in a few words.
fn policy(policy: &Policy) -> String {
    let given = &policy.given;
    let packets = rate(given.packets, given.packets_period).map(|rate| PacketRate(rate).to_string());
    let bytes = rate(given.bytes, given.bytes_period).map(|rate| ByteRate(rate).to_string());
    match (policy.kind, packets, bytes) {
        (ALLOW, ..) => "allow".to_owned(),
        (DENY, ..) => "deny".to_owned(),
        (BAN, ..) => "ban".to_owned(),
        (_, Some(packets), Some(bytes)) => format!("{packets}, {bytes}"),
        (_, Some(rate), None) | (_, None, Some(rate)) => rate,
        (_, None, None) => "no limit".to_owned(),
    }
}

/// A rate of the map of policies, unless it was not given.
pub(super) fn rate(amount: u64, period: u64) -> Option<Rate> {
    (amount != 0).then_some(Rate { amount, period })
}

/// Whether an error means only that nobody reads our output any more.
pub(super) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe))
}
