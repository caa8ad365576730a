//! One writer for people, one for programs.

use std::{
    io::{self, BufWriter, Write},
    time::Duration,
};

use anyhow::Result;
use ratelimit_common::{
    algorithm::Algorithm,
    limit::Limit,
    policy::{ALLOW, BAN, DENY, DROP, Policy},
    rule::{BANNED, COMMAND, SSH},
};
use serde::Serialize;

use super::excess::{self, Throttle};
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
    policy(&terms.policy) + &parents.collect::<String>() + &manner(&terms.policy)
}

/// The terms of a limit in a sentence.
pub(super) fn limit(terms: &Terms) -> String {
    let parents: Vec<_> = terms.parents.iter().map(parent).collect();
    let word = if terms.policy.algorithm == Algorithm::LeakyBucket as u8 { "queue" } else { "burst" };
    let own = match terms.policy.given.burst {
        0 => format!("{} per source", policy(&terms.policy)),
        burst => format!("{} per source, {word} {burst}", policy(&terms.policy)),
    };
    let own = own + &manner(&terms.policy);
    if parents.is_empty() { own } else { format!("{own}; together {}", parents.join(", ")) }
}

/// By what a limit counts and what becomes of packets over it, as far as that is not the usual, for the end of a phrase.
fn manner(policy: &Policy) -> String {
    let mut text = String::new();
    if policy.algorithm != Algorithm::default() as u8 {
        text += &format!(", {}", algorithm(policy));
    }
    match Throttle::of(policy) {
        Throttle::Hard => {}
        throttle => text += &format!(", {throttle}"),
    }
    if policy.over_limit != DROP {
        text += &format!(", {}", excess::over_limit(policy));
    }
    excess::ban(&policy.ban).map_or(text.clone(), |ban| format!("{text}, ban {ban}"))
}

/// The name of a policy's algorithm.
pub(super) fn algorithm(policy: &Policy) -> &'static str {
    Algorithm::of(policy.algorithm).unwrap_or_default().name()
}

/// A policy's limits of packets.
pub(super) fn packets(policy: &Policy) -> Option<String> {
    let Limit { packets, second_packets, .. } = Limit::of(policy);
    let first = PacketRate(packets?).to_string();
    Some(second_packets.map_or(first.clone(), |second| format!("{first},{}", PacketRate(second))))
}

/// A policy's limit of bytes.
pub(super) fn bytes(policy: &Policy) -> Option<String> {
    Limit::of(policy).bytes.map(|rate| ByteRate(rate).to_string())
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
    match (policy.kind, packets(policy), bytes(policy)) {
        (ALLOW, ..) => "allow".to_owned(),
        (DENY, ..) => "deny".to_owned(),
        (BAN, ..) => "ban".to_owned(),
        (_, Some(packets), Some(bytes)) => format!("{packets}, {bytes}"),
        (_, Some(rate), None) | (_, None, Some(rate)) => rate,
        (_, None, None) => "no limit".to_owned(),
    }
}

/// Whether an error means only that nobody reads our output any more.
pub(super) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe))
}
