//! Prefixes on standard input, in the form of feeds.

use std::{
    collections::HashSet,
    io::{self, BufRead, Write as _},
};

use anyhow::{Context as _, Result, bail};
use ratelimit_base::text::{
    feed::{self, Bad, Feed},
    prefix::Prefix,
};

use crate::cli::print::output::count;

/// The number of problems that are printed. Further ones are counted.
pub(crate) const SHOWN: usize = 20;

/// How a prefix inside another line's prefix is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nested {
    /// It repeats the other line, so it is a problem.
    Bad,
    /// It has its own rule, so it is good.
    Good,
}

/// A prefix and its line.
pub(crate) type Line = (Prefix, usize);

/// Lines that were not taken as they are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Passed {
    /// Lines that were skipped.
    pub(crate) skipped: usize,
    /// Lines with bits of an address beyond its prefix, which were cut.
    pub(crate) cut: usize,
}

/// What standard input has.
struct Lines {
    prefixes: Vec<Line>,
    bad: Vec<Bad>,
    /// The first lines that were cut.
    cut: Vec<Bad>,
    cuts: usize,
}

/// Reads the prefixes on standard input. Prints each problem, and what was cut.
pub(crate) fn prefixes(nested: Nested, skip_bad: bool) -> Result<(Vec<Line>, Passed)> {
    let Lines { prefixes, bad, cut, cuts } = read(io::stdin().lock(), nested)?;
    report(bad.iter())?;
    if !bad.is_empty() && !skip_bad {
        // A range has several prefixes, and a line can be bad for several of them.
        let lines = |lines: &mut dyn Iterator<Item = usize>| lines.collect::<HashSet<_>>();
        let (bad, good) =
            (lines(&mut bad.iter().map(|bad| bad.line)), lines(&mut prefixes.iter().map(|(_, line)| *line)));
        bail!(
            "{} of {} cannot be used: nothing was changed, --skip-bad skips them",
            bad.len(),
            count(bad.union(&good).count(), "line")
        );
    }
    report(cut.iter())?;
    if let Some(more) = cuts.checked_sub(cut.len()).filter(|more| *more != 0) {
        writeln!(io::stderr(), "ratelimit: and {} more with bits beyond the prefix", count(more, "line"))?;
    }
    Ok((prefixes, Passed { skipped: bad.len(), cut: cuts }))
}

/// Prints one line for each of the first problems.
pub(crate) fn report<'b>(bad: impl Iterator<Item = &'b Bad>) -> Result<()> {
    report_in("", bad)
}

/// Prints one line for each of the first problems of a file.
pub(crate) fn report_in<'b>(file: &str, mut bad: impl Iterator<Item = &'b Bad>) -> Result<()> {
    let mut err = io::stderr().lock();
    let colon = if file.is_empty() { "" } else { ": " };
    for Bad { line, why } in bad.by_ref().take(SHOWN) {
        writeln!(err, "ratelimit: {file}{colon}line {line}: {why}")?;
    }
    match bad.count() {
        0 => {}
        more => writeln!(err, "ratelimit: {file}{colon}and {} more", count(more, "line"))?,
    }
    Ok(())
}

/// Returns the prefixes in order, and the lines that are invalid or repeat another line.
fn read(input: impl BufRead, nested: Nested) -> Result<Lines> {
    let Feed { prefixes: mut found, mut bad, cut, cuts } = feed::read(input).context("standard input")?;
    // After sorting, prefixes inside another prefix directly follow it.
    found.sort_unstable();
    let mut prefixes: Vec<(Prefix, usize)> = Vec::with_capacity(found.len());
    let mut around: Option<(Prefix, usize)> = None;
    let repeats = |wide: &Prefix, prefix: &Prefix| wide == prefix || nested == Nested::Bad && wide.contains(prefix);
    for (prefix, line) in found {
        match around.filter(|(wide, _)| repeats(wide, &prefix)) {
            Some((wide, first)) if wide == prefix => {
                bad.push(Bad { line, why: format!("{prefix}: line {first} has it already") });
            }
            Some((wide, first)) => {
                bad.push(Bad { line, why: format!("{prefix}: is inside {wide} of line {first}") });
            }
            None => {
                around = Some((prefix, line));
                prefixes.push((prefix, line));
            }
        }
    }
    bad.sort_unstable_by_key(|bad| bad.line);
    Ok(Lines { prefixes, bad, cut, cuts })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str, nested: Nested) -> (Vec<String>, Vec<String>) {
        let Lines { prefixes, bad, .. } = read(text.as_bytes(), nested).unwrap();
        let bad = bad.into_iter().map(|bad| format!("{}: {}", bad.line, bad.why)).collect();
        (prefixes.iter().map(|(prefix, _)| prefix.to_string()).collect(), bad)
    }

    #[test]
    fn comments_and_empty_lines_are_skipped() {
        let (prefixes, bad) = lines("# list\n\n10.0.0.1 # one\r\n  2001:db8::/32\n", Nested::Bad);
        assert_eq!((prefixes, bad), (vec!["10.0.0.1".to_owned(), "2001:db8::/32".to_owned()], Vec::new()));
    }

    #[test]
    fn repeated_and_nested_prefixes_are_bad() {
        let (prefixes, bad) = lines("10.0.0.9\n10.0.0.0/8\n192.0.2.1\n10.1.0.0/16\n192.0.2.1\n11.0.0.0\n", Nested::Bad);
        assert_eq!(prefixes, ["10.0.0.0/8", "11.0.0.0", "192.0.2.1"]);
        assert_eq!(
            bad,
            [
                "1: 10.0.0.9: is inside 10.0.0.0/8 of line 2",
                "4: 10.1.0.0/16: is inside 10.0.0.0/8 of line 2",
                "5: 192.0.2.1: line 3 has it already",
            ]
        );
    }

    #[test]
    fn nested_prefixes_are_good_for_deletion() {
        let (prefixes, bad) = lines("10.0.0.9\n10.0.0.0/8\n10.0.0.9\n", Nested::Good);
        assert_eq!(prefixes, ["10.0.0.0/8", "10.0.0.9"]);
        assert_eq!(bad, ["3: 10.0.0.9: line 1 has it already"]);
    }
}
