//! Output as text or JSON.

use std::{
    fmt::Display,
    io::{self, BufWriter, Write},
    mem, slice,
    time::Duration,
};

use anyhow::Result;
use ratelimit_base::{
    notify::journal::takes_line,
    text::{pasted, units},
};
use ratelimit_common::rules::rule::{APPLICATION, BANNED, COMMAND, CONFIG, CROWDSEC, FILLED, FLEET, SSH};
use ratelimit_daemon::{limit::write, ssh};
use ratelimit_dataplane::{
    rules::{list::Listed, spec::RuleSpec},
    sys::signals,
};
use serde::Serialize;
use serde_json::Value;

pub(crate) use ratelimit_dataplane::readings::rates::Traffic;

/// The output format.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    /// JSON instead of text.
    pub(crate) json: bool,
}

impl Output {
    /// Prints `value` as JSON, or the text that `text` writes.
    pub(crate) fn print<T: Serialize>(
        self,
        value: &T,
        text: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<()> {
        let mut out = BufWriter::with_capacity(AT_ONCE, Endable::default());
        write(&mut out, value, self.json, text).map_err(Unprinted)?;
        if let Some(fate) = ssh::shut_out() {
            signals::let_through(|| writeln!(io::stderr(), "ratelimit: warning: {}", pasted::text(fate)))?;
        }
        Ok(())
    }
}

/// The bytes that a pipe takes at once if it takes any.
const AT_ONCE: usize = 4096;

/// Standard output. A reader that takes nothing does not keep the command from being ended. A short report comes before
/// a signal that has arrived, so it tells what was done.
#[derive(Default)]
pub(crate) struct Endable {
    has_written: bool,
}

impl Write for Endable {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (is_first, mut out) = (!mem::replace(&mut self.has_written, true), io::stdout());
        let is_at_once = is_first && bytes.len() <= AT_ONCE && takes_line(&out);
        if is_at_once { out.write(bytes) } else { signals::let_through(|| out.write(bytes)) }
    }

    fn flush(&mut self) -> io::Result<()> {
        signals::let_through(|| io::stdout().flush())
    }
}

/// The output of a command cannot be written. What the command has done stays done.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) struct Unprinted(io::Error);

fn write<T: Serialize>(
    out: &mut BufWriter<impl Write>,
    value: &T,
    is_json: bool,
    text: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let allowed_ssh = ssh::allowed();
    match allowed_ssh {
        None if is_json && !pasted::is_elsewhere() => {
            serde_json::to_writer(&mut *out, value).map_err(io::Error::from)?;
        }
        peer if is_json => {
            let mut value = serde_json::to_value(value)?;
            name_place(&mut value);
            if let Some(peer) = peer {
                let each = match &mut value {
                    Value::Array(all) => all.as_mut_slice(),
                    one => slice::from_mut(one),
                };
                for object in each.iter_mut().filter_map(Value::as_object_mut) {
                    object.insert("allowed_ssh".to_owned(), peer.to_string().into());
                }
            }
            serde_json::to_writer(&mut *out, &value).map_err(io::Error::from)?;
        }
        _ if pasted::is_elsewhere() => {
            let mut lines = Lines { out: &mut *out, line: Vec::new() };
            text(&mut lines)?;
            lines.end()?;
        }
        _ => text(out)?,
    }
    match allowed_ssh {
        _ if is_json => writeln!(out)?,
        Some(peer) => writeln!(out, "{}", pasted::text(&allowed_line(&peer)))?,
        None => {}
    }
    out.flush()
}

/// The key of what others have written, which no output changes.
const OF_OTHERS: &str = "comment";

/// Has the commands in a value name the place that they are about.
fn name_place(value: &mut Value) {
    match value {
        Value::String(text) => *text = pasted::text(text).into_owned(),
        Value::Array(all) => all.iter_mut().for_each(name_place),
        Value::Object(all) => {
            all.iter_mut().filter(|(key, _)| *key != OF_OTHERS).for_each(|(_, value)| name_place(value));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Writes lines whose commands name the place that they are about.
struct Lines<W> {
    out: W,
    /// The line that has begun.
    line: Vec<u8>,
}

impl<W: Write> Lines<W> {
    fn end(&mut self) -> io::Result<()> {
        let line = mem::take(&mut self.line);
        match str::from_utf8(&line) {
            Ok(text) => self.out.write_all(pasted::text(text).as_bytes()),
            Err(_) => self.out.write_all(&line),
        }
    }
}

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                self.end()?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Output {
    /// Prints values as [`Self::print`] does: one alone, several as a list.
    pub(crate) fn print_each<T: Serialize>(
        self,
        values: &[T],
        text: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<()> {
        match values {
            [one] => self.print(one, text),
            all => self.print(&all, text),
        }
    }
}

/// Returns the line about the address of this SSH session, which was allowed.
pub(crate) fn allowed_line(peer: &impl Display) -> String {
    format!(
        "{peer}: allowed, because it is the address of this SSH session (to undo: `ratelimit allow del {peer} --force`)"
    )
}

/// Writes rows in columns. Numbers are aligned to the right, also beside empty cells. A column without any text does not
/// appear.
pub(crate) fn table<const N: usize>(out: &mut dyn Write, head: [&str; N], rows: &[[String; N]]) -> io::Result<()> {
    let width = |column: usize| {
        rows.iter().map(|row| row[column].chars().count()).chain([head[column].len()]).max().unwrap_or(0)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let numeric: [bool; N] =
        std::array::from_fn(|column| rows.iter().all(|row| row[column].is_empty() || is_amount(&row[column])));
    let is_shown: [bool; N] =
        std::array::from_fn(|column| rows.is_empty() || rows.iter().any(|row| !row[column].is_empty()));
    for row in [&head.map(str::to_owned)].into_iter().chain(rows) {
        let mut line = String::new();
        for (((cell, width), numeric), _) in
            row.iter().zip(widths).zip(numeric).zip(is_shown).filter(|(_, shown)| *shown)
        {
            line += &if numeric { format!("{cell:>width$}  ") } else { format!("{cell:<width$}  ") };
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Returns whether the text is a number, perhaps an estimate, or with groups of digits or in millions.
fn is_amount(text: &str) -> bool {
    let text = text.strip_prefix('~').unwrap_or(text);
    let digits = text.strip_suffix(" M").map_or_else(|| text.replace(',', ""), |millions| millions.replace('.', ""));
    digits.parse::<u64>().is_ok()
}

/// Returns a number with its noun: `1 rule`, `2 rules`.
pub(crate) fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Returns when a rule ends, and what covers it now: `never, covered by deny for 9m`.
pub(crate) fn end(seconds: Option<u64>, covers: Option<&str>, covered_by: Option<&str>) -> String {
    expiry(seconds, covers) + &covered_by.map_or_else(String::new, |above| format!(", covered by {above}"))
}

/// Returns when a rule ends, and what applies then: `in 2h5m, then allow` or `never`.
pub(crate) fn expiry(seconds: Option<u64>, covers: Option<&str>) -> String {
    let Some(seconds) = seconds else { return "never".to_owned() };
    let then = covers.map_or_else(String::new, |covered| format!(", then {covered}"));
    format!("in {}{then}", units::write_duration(Duration::from_secs(seconds)))
}

/// Returns the rules that `is_meant`, each with the temporary rule that covers it now, in words.
pub(crate) fn with_covered(all: &[Listed], is_meant: impl Fn(&RuleSpec) -> bool) -> Vec<(Listed, Option<String>)> {
    let each = |rule: &Listed| {
        if is_meant(&rule.spec) {
            return Some((rule.clone(), None));
        }
        let covered = rule.covered().filter(|covered| is_meant(&covered.spec))?;
        let left = rule.expires_in.map(|left| format!(" for {}", units::write_duration(left)));
        Some((covered, Some(write::spec(&rule.spec) + &left.unwrap_or_default())))
    };
    all.iter().filter_map(each).collect()
}

/// Returns the rule that one covers, in words.
pub(crate) fn covers(rule: &Listed) -> Option<String> {
    rule.covers.as_ref().map(|covered| write::spec(&covered.spec))
}

/// Returns the name of a rule's origin.
pub(crate) fn origin(origin: u8) -> &'static str {
    match origin {
        COMMAND => "command",
        SSH => "ssh",
        BANNED => "ban",
        CONFIG => "config",
        FILLED => "filled",
        FLEET => "fleet",
        APPLICATION => "application",
        CROWDSEC => "crowdsec",
        _ => "unknown",
    }
}

/// Returns who has set a rule or a list, for the words *it was set*.
pub(crate) const fn set_by(origin: u8) -> &'static str {
    match origin {
        COMMAND => "by command",
        SSH => "for an SSH session",
        BANNED => "by a limit with a ban",
        CONFIG => "by the configuration file",
        FILLED => "by bans that have filled it",
        FLEET => "by the fleet",
        APPLICATION => "for an application",
        CROWDSEC => "by CrowdSec",
        _ => "by another version",
    }
}

/// Returns whether the command has done everything, and only its output is missing.
pub(crate) fn is_done(error: &anyhow::Error) -> bool {
    error.chain().any(<dyn std::error::Error>::is::<Unprinted>)
}

/// Returns whether the error is a closed output pipe.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let of = |cause: &(dyn std::error::Error + 'static)| match cause.downcast_ref() {
        Some(Unprinted(error)) => Some(error.kind()),
        None => cause.downcast_ref().map(io::Error::kind),
    };
    error.chain().any(|cause| of(cause) == Some(io::ErrorKind::BrokenPipe))
}
