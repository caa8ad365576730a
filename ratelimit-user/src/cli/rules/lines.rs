//! Prefixes on standard input, in the form of feeds.

use std::io::{self, BufRead, Write as _};

use anyhow::{Result, anyhow, bail};
use ratelimit_base::text::{
    feed::{self, Bad, Feed, Purpose},
    pasted,
    prefix::Prefix,
};

use crate::cli::print::output::count;

/// The number of problems that are printed. Further ones are counted.
pub(crate) const SHOWN: usize = 20;

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

/// Reads the prefixes on standard input. Prints each problem, and what was cut.
pub(crate) fn prefixes(purpose: Purpose, skip_bad: bool) -> Result<(Vec<Line>, Passed)> {
    let Feed { prefixes, usable, bad, cut, cuts } = read(io::stdin().lock(), purpose)?;
    report(bad.iter())?;
    if !bad.is_empty() && !skip_bad {
        bail!(
            "{} of {} cannot be used: nothing was changed, --skip-bad skips them",
            bad.len(),
            count(bad.len() + usable, "line")
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
        writeln!(err, "ratelimit: {file}{colon}line {line}: {}", pasted::text(why))?;
    }
    match bad.count() {
        0 => {}
        more => writeln!(err, "ratelimit: {file}{colon}and {} more", count(more, "line"))?,
    }
    Ok(())
}

/// Returns each prefix once, in order, and the lines that cannot be used.
fn read(input: impl BufRead, purpose: Purpose) -> Result<Feed> {
    let mut feed = feed::read_within(input, usize::MAX, purpose)
        .map_err(|error| anyhow!("standard input {error}: nothing was changed, {}", error.advice()))?;
    // After sorting, prefixes inside another prefix directly follow it. Each can have a rule of its own.
    feed.prefixes.sort_unstable();
    let merges = purpose != Purpose::Delete;
    let repeats = |wide: &Prefix, prefix: &Prefix| wide == prefix || merges && wide.contains(prefix);
    feed.prefixes.dedup_by(|(prefix, _), (wide, _)| repeats(wide, prefix));
    Ok(feed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str, purpose: Purpose) -> (Vec<String>, Vec<String>) {
        let Feed { prefixes, bad, .. } = read(text.as_bytes(), purpose).unwrap();
        let bad = bad.into_iter().map(|bad| format!("{}: {}", bad.line, bad.why)).collect();
        (prefixes.iter().map(|(prefix, _)| prefix.to_string()).collect(), bad)
    }

    #[test]
    fn comments_and_empty_lines_are_skipped() {
        let (prefixes, bad) = lines("# list\n\n10.0.0.1 # one\r\n  2001:db8::/32\n", Purpose::Refuse);
        assert_eq!((prefixes, bad), (vec!["10.0.0.1".to_owned(), "2001:db8::/32".to_owned()], Vec::new()));
    }

    #[test]
    fn lines_inside_other_lines_are_merged() {
        let text = "10.0.0.9\n10.0.0.0/8\n192.0.2.1\n10.1.0.0/16\n192.0.2.1\n11.0.0.0\n";
        let none = Vec::<String>::new();
        let merged = ["10.0.0.0/8", "11.0.0.0", "192.0.2.1"].map(str::to_owned).to_vec();
        assert_eq!(lines(text, Purpose::Refuse), (merged, none.clone()));
        // The rule of each of them is deleted, once.
        let all = ["10.0.0.0/8", "10.0.0.9", "10.1.0.0/16", "11.0.0.0", "192.0.2.1"].map(str::to_owned).to_vec();
        assert_eq!(lines(text, Purpose::Delete), (all, none));
    }

    #[test]
    fn what_is_too_wide_can_only_be_deleted() {
        let text = "192.0.2.1\n0.0.0.0/0\n";
        let (prefixes, bad) = lines(text, Purpose::Refuse);
        assert_eq!(prefixes, ["192.0.2.1"]);
        assert!(bad.len() == 1 && bad[0].starts_with("2: 0.0.0.0/0: too wide for a list"), "{bad:?}");
        assert_eq!(lines(text, Purpose::Delete).0, ["0.0.0.0/0", "192.0.2.1"]);
    }
}
