//! One writer for people, one for programs.

use std::{
    io::{self, BufWriter, Write},
    time::Duration,
};

use anyhow::Result;
use ratelimit_common::rules::rule::{BANNED, COMMAND, CONFIG, SSH};
use serde::Serialize;

use crate::units;

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

/// So many of them: `1 rule`, `2 rules`.
pub(crate) fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
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
        CONFIG => "config",
        _ => "unknown",
    }
}

/// Whether an error means only that nobody reads our output any more.
pub(super) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe))
}
