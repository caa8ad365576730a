//! Prefixes on standard input, one per line.

use std::io::{self, BufRead, Read as _, Write as _};

use anyhow::{Result, bail};

use crate::{
    cli::print::output::count,
    text::{excerpt::excerpt, prefix::Prefix},
};

/// The number of problems that are printed. Further ones are counted.
const SHOWN: usize = 20;

/// The most lines of a list.
const MOST_LINES: usize = 10_000_000;

/// The most bytes of a line.
const MOST_BYTES: u64 = 4_096;

/// The most bytes of a list: 1 GiB.
const MOST_OF_ALL: u64 = 1 << 30;

/// The most lines that are no prefix.
const MOST_BAD: usize = 100_000;

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

/// A line that cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bad {
    pub(crate) line: usize,
    pub(crate) why: String,
}

/// Reads the prefixes on standard input. Prints each problem, and returns how many lines were skipped.
pub(crate) fn prefixes(nested: Nested, skip_bad: bool) -> Result<(Vec<Line>, usize)> {
    let (prefixes, bad) = read(io::stdin().lock(), nested)?;
    report(&bad)?;
    if !bad.is_empty() && !skip_bad {
        bail!(
            "{} of {} cannot be used: nothing was changed, --skip-bad skips them",
            bad.len(),
            count(bad.len() + prefixes.len(), "line")
        );
    }
    Ok((prefixes, bad.len()))
}

/// Prints one line for each of the first problems.
pub(crate) fn report(bad: &[Bad]) -> Result<()> {
    let mut err = io::stderr().lock();
    for Bad { line, why } in bad.iter().take(SHOWN) {
        writeln!(err, "ratelimit: line {line}: {why}")?;
    }
    if bad.len() > SHOWN {
        writeln!(err, "ratelimit: and {} more", count(bad.len() - SHOWN, "line"))?;
    }
    Ok(())
}

/// Returns the prefixes in order, and the lines that are invalid or repeat another line. A `#` begins a comment.
fn read(input: impl BufRead, nested: Nested) -> Result<(Vec<Line>, Vec<Bad>)> {
    let (mut found, mut bad) = (Vec::<(Prefix, usize)>::new(), Vec::new());
    let mut text = Vec::new();
    let mut line = 0;
    let mut input = input.take(MOST_OF_ALL);
    while input.by_ref().take(MOST_BYTES).read_until(b'\n', &mut text)? != 0 {
        line += 1;
        if line > MOST_LINES {
            bail!("standard input has more than {MOST_LINES} lines: nothing was changed, give a shorter list");
        }
        if bad.len() > MOST_BAD {
            bail!(
                "more than {MOST_BAD} lines of standard input cannot be used: nothing was changed, check that it is a list"
            );
        }
        if text.len() as u64 == MOST_BYTES && !text.ends_with(b"\n") {
            input.skip_until(b'\n')?;
            bad.push(Bad { line, why: format!("is longer than {MOST_BYTES} bytes") });
            text.clear();
            continue;
        }
        let words = String::from_utf8_lossy(&text);
        let prefix = words.split('#').next().unwrap_or_default().trim();
        if !prefix.is_empty() {
            match prefix.parse() {
                Ok(prefix) => found.push((prefix, line)),
                Err(error) => bad.push(Bad { line, why: format!("{}: {error}", excerpt(prefix)) }),
            }
        }
        text.clear();
    }
    if input.limit() == 0 {
        bail!("standard input has more than 1 GiB: nothing was changed, give a shorter list");
    }
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

    #[test]
    fn any_bytes_are_read() {
        let (prefixes, bad) = read(&b"\xff\xfe\n10.0.0.256\n::/129"[..], Nested::Bad).unwrap();
        assert!(prefixes.is_empty());
        assert_eq!(bad.iter().map(|bad| bad.line).collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[test]
    fn long_lines_are_bad_and_the_next_line_is_read() {
        let long = "1".repeat(3 * MOST_BYTES as usize);
        let (prefixes, bad) = lines(&format!("{long}\n10.0.0.1\n{long}"), Nested::Bad);
        assert_eq!(prefixes, ["10.0.0.1"]);
        assert_eq!(bad, ["1: is longer than 4096 bytes", "3: is longer than 4096 bytes"]);
    }

    #[test]
    fn bad_lines_cannot_control_the_terminal() {
        let (_, bad) = lines("\x1b[2Jaway\n", Nested::Bad);
        assert!(bad[0].starts_with("1: \\u{1b}[2Jaway: expected an address"), "{bad:?}");
    }

    #[test]
    fn endless_input_is_refused() {
        for (byte, why) in [(b'\n', "more than 10000000 lines"), (b'1', "more than 1 GiB")] {
            let endless = io::BufReader::new(io::repeat(byte));
            assert!(read(endless, Nested::Bad).unwrap_err().to_string().contains(why));
        }
        let bad = io::BufReader::new(io::Cursor::new(b"1\n".repeat(MOST_BAD + 2)));
        assert!(read(bad, Nested::Bad).unwrap_err().to_string().contains("more than 100000 lines"));
    }
}
