//! One rule for many sources: prefixes that stand on standard input, one in each line.

use std::{
    io::{self, BufRead, IsTerminal as _, Write as _},
    path::Path,
    str::FromStr,
    time::Duration,
};

use anyhow::{Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use ratelimit_common::{
    rule::{COMMAND, NEVER},
    service::Service,
};
use serde::Serialize;

use super::{
    Answer,
    change::for_time,
    output::{Output, count},
};
use crate::{
    dataplane::{
        Instance,
        bulk::{Change, Wish},
        host,
        target::Target,
        terms::Terms,
    },
    prefix::Prefix,
    ssh,
};

/// Problems that are shown, each in a line; the others are counted.
const SHOWN: usize = 20;

/// What is said where there are no lines.
pub(super) const NOT_MANY: &str =
    "--skip-bad is for prefixes on standard input: give - in place of the prefix, or leave it away";

/// Rules from which on a terminal shows how far they are.
const MANY: usize = 50_000;

/// The sources of a rule, or the word for standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OneOrMany<T> {
    /// As it stands there.
    One(T),
    /// `-`.
    Many,
}

impl<T: FromStr> FromStr for OneOrMany<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        if text == "-" { Ok(Self::Many) } else { text.parse().map(Self::One) }
    }
}

/// What all the rules say.
pub(super) struct Rule<'a> {
    pub(super) service: Service,
    pub(super) terms: Terms,
    pub(super) life: Option<Duration>,
    pub(super) force: bool,
    /// Bad lines are left out, and the others are good enough.
    pub(super) skip_bad: bool,
    /// The terms in words.
    pub(super) text: &'a str,
}

#[derive(Debug, Serialize)]
struct Set {
    set: usize,
    skipped: usize,
}

/// A line that cannot be used.
#[derive(Debug, PartialEq, Eq)]
struct Bad {
    line: usize,
    why: String,
}

/// Reads the prefixes, and gives each of them the rule.
pub(super) fn set(rule: &Rule<'_>, pins: &Path, output: Output) -> Result<Answer> {
    let (prefixes, bad) = read(io::stdin().lock())?;
    report(&bad)?;
    if !bad.is_empty() && !rule.skip_bad {
        bail!(
            "{} of {} cannot be used: nothing was changed, --skip-bad leaves them out",
            bad.len(),
            count(bad.len() + prefixes.len(), "line")
        );
    }
    let expires =
        rule.life.map_or(NEVER, |life| host::now().saturating_add(u64::try_from(life.as_nanos()).unwrap_or(NEVER)));
    let wish =
        |prefix: &Prefix| Wish { target: Target::prefix(*prefix).of(rule.service), terms: 0, expires, origin: COMMAND };
    let change =
        Change { terms: vec![rule.terms.clone()], wishes: prefixes.iter().map(wish).collect(), deleted: Vec::new() };
    let mut instance = Instance::open(pins)?;
    let bar = bar(change.wishes.len());
    let outcome = {
        let guard = ssh::Guard::of(&instance, rule.force)?;
        instance.change(&change, &mut |done| bar.set_position(done as u64), &|tables| guard.check(tables))
    };
    bar.finish_and_clear();
    outcome?;
    let set = Set { set: prefixes.len(), skipped: bad.len() };
    output.print(&set, |out| {
        let skipped = match bad.len() {
            0 => String::new(),
            bad => format!(", {} left out", count(bad, "line")),
        };
        writeln!(out, "{}: {}{}{skipped}", count(set.set, "rule"), rule.text, for_time(rule.life))
    })?;
    Ok(Answer::Done)
}

/// How far it is, for whoever looks at a terminal.
fn bar(rules: usize) -> ProgressBar {
    if rules < MANY || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{wide_bar} {human_pos} of {human_len} rules");
    ProgressBar::new(rules as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// One line for each of the first problems.
fn report(bad: &[Bad]) -> Result<()> {
    let mut err = io::stderr().lock();
    for Bad { line, why } in bad.iter().take(SHOWN) {
        writeln!(err, "ratelimit: line {line}: {why}")?;
    }
    if bad.len() > SHOWN {
        writeln!(err, "ratelimit: and {} more", count(bad.len() - SHOWN, "line"))?;
    }
    Ok(())
}

/// The prefixes in order, and the lines that are none, or say what another one says already. What follows a `#` is a comment.
fn read(mut input: impl BufRead) -> io::Result<(Vec<Prefix>, Vec<Bad>)> {
    let (mut found, mut bad) = (Vec::<(Prefix, usize)>::new(), Vec::new());
    let mut text = Vec::new();
    let mut line = 0;
    while input.read_until(b'\n', &mut text)? != 0 {
        line += 1;
        let words = String::from_utf8_lossy(&text);
        let prefix = words.split('#').next().unwrap_or_default().trim();
        if !prefix.is_empty() {
            match prefix.parse() {
                Ok(prefix) => found.push((prefix, line)),
                Err(error) => bad.push(Bad { line, why: format!("{prefix}: {error}") }),
            }
        }
        text.clear();
    }
    // Whatever is within a prefix comes right after it.
    found.sort_unstable();
    let mut prefixes: Vec<Prefix> = Vec::with_capacity(found.len());
    let mut around: Option<(Prefix, usize)> = None;
    for (prefix, line) in found {
        match around.filter(|(wide, _)| wide.contains(&prefix)) {
            Some((wide, first)) if wide == prefix => {
                bad.push(Bad { line, why: format!("{prefix}: stands in line {first} already") });
            }
            Some((wide, first)) => {
                bad.push(Bad { line, why: format!("{prefix}: is within {wide} of line {first}") });
            }
            None => {
                around = Some((prefix, line));
                prefixes.push(prefix);
            }
        }
    }
    bad.sort_unstable_by_key(|bad| bad.line);
    Ok((prefixes, bad))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> (Vec<String>, Vec<String>) {
        let (prefixes, bad) = read(text.as_bytes()).unwrap();
        let bad = bad.into_iter().map(|bad| format!("{}: {}", bad.line, bad.why)).collect();
        (prefixes.iter().map(Prefix::to_string).collect(), bad)
    }

    #[test]
    fn comments_and_empty_lines_are_none() {
        let (prefixes, bad) = lines("# list\n\n10.0.0.1 # one\r\n  2001:db8::/32\n");
        assert_eq!((prefixes, bad), (vec!["10.0.0.1".to_owned(), "2001:db8::/32".to_owned()], Vec::new()));
    }

    #[test]
    fn what_another_line_says_already_is_bad() {
        let (prefixes, bad) = lines("10.0.0.9\n10.0.0.0/8\n192.0.2.1\n10.1.0.0/16\n192.0.2.1\n11.0.0.0\n");
        assert_eq!(prefixes, ["10.0.0.0/8", "11.0.0.0", "192.0.2.1"]);
        assert_eq!(
            bad,
            [
                "1: 10.0.0.9: is within 10.0.0.0/8 of line 2",
                "4: 10.1.0.0/16: is within 10.0.0.0/8 of line 2",
                "5: 192.0.2.1: stands in line 3 already",
            ]
        );
    }

    #[test]
    fn any_bytes_are_read() {
        let (prefixes, bad) = read(&b"\xff\xfe\n10.0.0.256\n::/129"[..]).unwrap();
        assert!(prefixes.is_empty());
        assert_eq!(bad.iter().map(|bad| bad.line).collect::<Vec<_>>(), [1, 2, 3]);
    }
}
