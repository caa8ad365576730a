//! The content of the state file: one JSON value in each line. The first line has the version, the time of writing, the
//! learned rate of unknown sources, and how many debts and bans follow.
//!
//! Times are what was left at the time of writing, not moments. So a clock that was wrong then or is wrong now cannot
//! make a debt or a ban longer than it was at the time of writing.

use std::io::{self, Write};

use ratelimit_base::text::{
    prefix::Prefix,
    service::{ServiceError, ServiceName},
};
use ratelimit_common::{
    cells::learned_rate::{DAYS, LearnedRate},
    identity::service::Service,
    maps::names,
    meters::gcra,
    rules::ban,
};
use ratelimit_dataplane::debts::{Ban, Debt, Saved};
use serde::{Deserialize, Serialize};

/// The most debts in a file.
pub(super) const MOST_DEBTS: usize = 100_000;

/// The most bans in a file: as many as an instance can have.
const MOST_BANS: usize = (names::BAN_SETS * names::BANS_OF_A_SET) as usize;

/// The name of the format.
const FORMAT: &str = "ratelimit-state";

/// How every file of any version begins.
pub(super) const BEGINNING: &str = "{\"format\":\"ratelimit-state\",";

/// The version of the format.
const VERSION: u32 = 1;

/// Nanoseconds that no debt exceeds.
const LONGEST_DEBT: u64 = gcra::MAX_DEBT >> gcra::FRACTION_BITS;

/// The name of all services.
const ANY: &str = "any";

/// What is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The first line is missing, or of another format.
    #[error("is not a state file")]
    Format,
    /// The file is of another version of the format.
    #[error("is of version {0} of the format, not {VERSION}")]
    Version(u32),
    /// Lines are missing, or there are too many.
    #[error("is not complete")]
    Incomplete,
    /// A line cannot be read.
    #[error("line {line}: {what}")]
    Line {
        /// The number of the line. The first is 1.
        line: usize,
        /// What is wrong.
        what: String,
    },
}

/// What every version has in its first line.
#[derive(Deserialize)]
struct Kind {
    format: String,
    version: u32,
}

/// The first line. Later versions may write more into it.
#[derive(Serialize, Deserialize)]
struct Head {
    format: String,
    version: u32,
    /// Nanoseconds since 1970.
    written: u64,
    debts: usize,
    bans: usize,
    /// Earlier versions did not write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    learned: Option<LearnedLine>,
}

/// What the program has learned about the rate of unknown sources.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LearnedLine {
    per_minute: u64,
    calm: u64,
    /// Earlier versions did not write these two.
    #[serde(default)]
    restless_of_day: u64,
    #[serde(default)]
    repeats: u64,
    most: [u64; DAYS],
}

/// Any other line. Times are in nanoseconds.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Debt(DebtLine),
    Ban(BanLine),
}

/// A debt.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DebtLine {
    source: String,
    service: String,
    left: [u64; 2],
}

/// A ban.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BanLine {
    source: String,
    service: String,
    left: u64,
    doubled: u8,
}

/// Writes debts, bans and the learned rate at this time, in nanoseconds since 1970.
pub(super) fn write(saved: &Saved, written: u64, out: &mut impl Write) -> io::Result<()> {
    let (debts, bans) = (saved.debts.len(), saved.bans.len());
    let learned = saved.learned.and_then(LearnedRate::lasting);
    let learned = learned.map(|LearnedRate { per_minute, calm, restless_of_day, repeats, most, .. }| LearnedLine {
        per_minute,
        calm,
        restless_of_day,
        repeats,
        most,
    });
    line(out, &Head { format: FORMAT.to_owned(), version: VERSION, written, debts, bans, learned })?;
    for Debt { source, service, left } in &saved.debts {
        let (source, service) = (source.to_string(), ServiceName(*service).to_string());
        line(out, &Line::Debt(DebtLine { source, service, left: *left }))?;
    }
    for Ban { source, service, left, doubled } in &saved.bans {
        let (source, service) = (source.to_string(), ServiceName(*service).to_string());
        line(out, &Line::Ban(BanLine { source, service, left: *left, doubled: *doubled }))?;
    }
    Ok(())
}

fn line(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}

/// Returns the learned rate, and what is left of the debts and bans at this time, in nanoseconds since 1970.
pub(super) fn parse(text: &str, now: u64) -> Result<Saved, FormatError> {
    let (first, rest) = text.split_once('\n').ok_or(FormatError::Format)?;
    let kind: Kind = serde_json::from_str(first).map_err(|_| FormatError::Format)?;
    match kind {
        Kind { format, .. } if format != FORMAT => return Err(FormatError::Format),
        Kind { version, .. } if version != VERSION => return Err(FormatError::Version(version)),
        _ => {}
    }
    let wrong = |line: usize, what: &dyn ToString| FormatError::Line { line, what: what.to_string() };
    let head: Head = serde_json::from_str(first).map_err(|error| wrong(1, &error))?;
    if head.debts > MOST_DEBTS || head.bans > MOST_BANS {
        return Err(wrong(1, &"more debts or bans than any instance has"));
    }
    // A rate that no program learns is left out. Debts and bans do not depend on it.
    let learned = head.learned.and_then(|LearnedLine { per_minute, calm, restless_of_day, repeats, most }| {
        LearnedRate { per_minute, calm, restless_of_day, repeats, most, ..LearnedRate::default() }.lasting()
    });
    // If the clock was set back, nothing has ended.
    let elapsed = now.saturating_sub(head.written);
    let (mut saved, mut debts, mut bans) = (Saved { learned, ..Saved::default() }, 0, 0);
    for (at, text) in rest.split_inclusive('\n').enumerate() {
        let text = text.strip_suffix('\n').ok_or(FormatError::Incomplete)?;
        let wrong = |what: &dyn ToString| wrong(at + 2, what);
        match serde_json::from_str(text).map_err(|error| wrong(&error))? {
            Line::Debt(line) => {
                if line.left.iter().any(|left| *left > LONGEST_DEBT) {
                    return Err(wrong(&"a debt that no limit can make"));
                }
                debts += 1;
                let (source, service) = payer(&line.source, &line.service).map_err(|what| wrong(&what))?;
                let debt = Debt { source, service, left: line.left.map(|left| left.saturating_sub(elapsed)) };
                saved.debts.extend((debt.longest() != 0).then_some(debt));
            }
            Line::Ban(line) => {
                if line.left > ban::LONGEST {
                    return Err(wrong(&"a ban that is longer than any"));
                }
                bans += 1;
                let (source, service) = payer(&line.source, &line.service).map_err(|what| wrong(&what))?;
                let left = line.left.saturating_sub(elapsed);
                saved.bans.extend((left != 0).then_some(Ban { source, service, left, doubled: line.doubled }));
            }
        }
    }
    if (debts, bans) == (head.debts, head.bans) { Ok(saved) } else { Err(FormatError::Incomplete) }
}

fn payer(source: &str, service: &str) -> Result<(Prefix, Service), String> {
    let source = Prefix::of_any_source(source).map_err(|error| error.to_string())?;
    let service = match service {
        ANY => Ok(ServiceName(Service::Any)),
        service => service.parse().map_err(|error: ServiceError| error.to_string()),
    };
    service.map(|ServiceName(service)| (source, service))
}

#[cfg(test)]
mod tests;
