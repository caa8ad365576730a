//! The lines of standard input: a prefix in each.

use std::io::{self, BufRead, Write as _};

use anyhow::{Result, bail};

use crate::{cli::output::count, prefix::Prefix};

/// Problems that are shown, each in a line; the others are counted.
const SHOWN: usize = 20;

/// Prefixes that lie within others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nested {
    /// They say what others say.
    Bad,
    /// Each is about a rule of its own.
    Good,
}

/// A prefix, and the line that it stands in.
pub(super) type Line = (Prefix, usize);

/// A line that cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Bad {
    pub(super) line: usize,
    pub(super) why: String,
}

/// The prefixes of standard input with their lines, and how many lines were left out, each of which is told.
pub(super) fn prefixes(nested: Nested, skip_bad: bool) -> Result<(Vec<Line>, usize)> {
    let (prefixes, bad) = read(io::stdin().lock(), nested)?;
    report(&bad)?;
    if !bad.is_empty() && !skip_bad {
        bail!(
            "{} of {} cannot be used: nothing was changed, --skip-bad leaves them out",
            bad.len(),
            count(bad.len() + prefixes.len(), "line")
        );
    }
    Ok((prefixes, bad.len()))
}

/// One line for each of the first problems.
pub(super) fn report(bad: &[Bad]) -> Result<()> {
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
fn read(mut input: impl BufRead, nested: Nested) -> io::Result<(Vec<Line>, Vec<Bad>)> {
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
    let mut prefixes: Vec<(Prefix, usize)> = Vec::with_capacity(found.len());
    let mut around: Option<(Prefix, usize)> = None;
    let says_it = |wide: &Prefix, prefix: &Prefix| wide == prefix || nested == Nested::Bad && wide.contains(prefix);
    for (prefix, line) in found {
        match around.filter(|(wide, _)| says_it(wide, &prefix)) {
            Some((wide, first)) if wide == prefix => {
                bad.push(Bad { line, why: format!("{prefix}: stands in line {first} already") });
            }
            Some((wide, first)) => {
                bad.push(Bad { line, why: format!("{prefix}: is within {wide} of line {first}") });
            }
            None => {
                around = Some((prefix, line));
                prefixes.push((prefix, line));
            }
        }
    }
    bad.sort_unstable_by_key(|bad| bad.line);
    Ok((prefixes, bad))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str, nested: Nested) -> (Vec<String>, Vec<String>) {
        let (prefixes, bad) = read(text.as_bytes(), nested).unwrap();
        let bad = bad.into_iter().map(|bad| format!("{}: {}", bad.line, bad.why)).collect();
        (prefixes.iter().map(|(prefix, _)| prefix.to_string()).collect(), bad)
    }

    #[test]
    fn comments_and_empty_lines_are_none() {
        let (prefixes, bad) = lines("# list\n\n10.0.0.1 # one\r\n  2001:db8::/32\n", Nested::Bad);
        assert_eq!((prefixes, bad), (vec!["10.0.0.1".to_owned(), "2001:db8::/32".to_owned()], Vec::new()));
    }

    #[test]
    fn what_another_line_says_already_is_bad() {
        let (prefixes, bad) = lines("10.0.0.9\n10.0.0.0/8\n192.0.2.1\n10.1.0.0/16\n192.0.2.1\n11.0.0.0\n", Nested::Bad);
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
    fn prefixes_within_others_are_good_where_each_has_a_rule_of_its_own() {
        let (prefixes, bad) = lines("10.0.0.9\n10.0.0.0/8\n10.0.0.9\n", Nested::Good);
        assert_eq!(prefixes, ["10.0.0.0/8", "10.0.0.9"]);
        assert_eq!(bad, ["3: 10.0.0.9: stands in line 1 already"]);
    }

    #[test]
    fn any_bytes_are_read() {
        let (prefixes, bad) = read(&b"\xff\xfe\n10.0.0.256\n::/129"[..], Nested::Bad).unwrap();
        assert!(prefixes.is_empty());
        assert_eq!(bad.iter().map(|bad| bad.line).collect::<Vec<_>>(), [1, 2, 3]);
    }
}
