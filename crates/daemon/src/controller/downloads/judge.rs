//! Whether what a server has sent is a list.

use std::{str, str::Lines};

use ratelimit_base::text::{
    feed::{self, FeedError, Purpose},
    prefix::Prefix,
};
use ratelimit_common::maps::names::LIST_PREFIXES_MOST;
use ratelimit_dataplane::lists::entries::{self, Entries};

/// The most bytes of a line with one prefix.
const LINE: u64 = 44;

/// How many prefixes a list may have for each entry: some are there twice, or inside another one.
const NESTED: usize = 4;

/// What a server has sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct List {
    /// The entries. There is at least one.
    pub(super) entries: Entries,
    /// The lines that are left out, in words. None without any.
    pub(super) skipped: Option<String>,
}

/// Reads a text, which must be a list of at most so many entries. At least half of its lines must be usable.
///
/// # Errors
///
/// Fails with why it is no list, or too long.
pub(super) fn judge(text: &[u8], most: usize) -> Result<List, String> {
    let most_prefixes = most.saturating_mul(NESTED).max(LIST_PREFIXES_MOST as usize);
    let feed = feed::read_within(text, most_prefixes, Purpose::Refuse);
    let feed = feed.map_err(|error| match error {
        FeedError::Page => "the answer is a web page, not a list: check the address".to_owned(),
        FeedError::Prefixes(found) => {
            format!("the list has more than {found} prefixes, and {most} entries are allowed: raise max-entries if this is right")
        }
        error => format!("the answer {error}"),
    })?;
    let (entries, bad) = entries::of_feed(feed).map_err(|error| format!("the answer is no list: {error}"))?;
    let skipped = bad
        .first()
        .map(|first| format!("{} of its lines cannot be used, such as line {}: {}", bad.len(), first.line, first.why));
    check_sizes(entries.len(), entries.prefixes.len(), most)?;
    Ok(List { entries, skipped })
}

fn check_sizes(entries: usize, prefixes: usize, most: usize) -> Result<(), String> {
    if entries == 0 {
        return Err("the answer has no address".to_owned());
    }
    if entries > most {
        return Err(format!(
            "the list has {entries} entries, and {most} are allowed: raise max-entries if this is right"
        ));
    }
    if prefixes > LIST_PREFIXES_MOST as usize {
        return Err(format!(
            "the list has {prefixes} prefixes, and all lists together can have {LIST_PREFIXES_MOST}: use a shorter list"
        ));
    }
    Ok(())
}

/// Returns the most bytes of a list with one prefix per line.
pub(super) fn most_bytes(entries: usize) -> u64 {
    LINE.saturating_mul(entries as u64).saturating_add(1)
}

/// Checks a list with one prefix per line, as the process for it writes it. Returns the number of its entries.
///
/// # Errors
///
/// Fails if it is none.
pub(super) fn check(list: &[u8], most: usize) -> Result<usize, String> {
    let broken = || "the process for it has written no list".to_owned();
    let prefixes = |lines: Lines<'_>| {
        let usable = |line: &str| line.parse::<Prefix>().ok().filter(|prefix| !prefix.is_too_wide());
        lines.map(usable).try_fold((0, 0), |(entries, prefixes), prefix| {
            let is_address = prefix.map(|prefix| prefix.is_host() && prefix.address().is_ipv4())?;
            Some((entries + 1, prefixes + usize::from(!is_address)))
        })
    };
    let text = str::from_utf8(list).map_err(|_| broken())?;
    let (entries, prefixes) = prefixes(text.lines()).ok_or_else(broken)?;
    check_sizes(entries, prefixes, most).map(|()| entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_addresses_on_most_of_its_lines() {
        for good in ["192.0.2.1\n", "# feed\n192.0.2.0/24 ; SBL1\n\nbad\n", "192.0.2.1-192.0.2.9\nbad", "2001:db8::/32"]
        {
            let List { entries, skipped } = judge(good.as_bytes(), 10).unwrap();
            assert!(!entries.is_empty(), "{good}");
            assert_eq!(skipped.is_some(), good.contains("bad"), "{good}: {skipped:?}");
        }
        for (bad, expected) in [
            ("", "has no address"),
            ("# the server is down\n", "has no address"),
            ("\u{feff} <!DOCTYPE html>\n192.0.2.1\n", "is a web page"),
            ("{\"error\":\"quota\"}\n", "the answer has no address"),
            ("[\"192.0.2.1\", \"192.0.", "the answer is JSON, but cut or damaged: line 1: EOF"),
            ("127.0.0.1 localhost\n0.0.0.0 ads.example\n", "the answer looks like a hosts file: 2 lines gave 2"),
            ("192.0.2.1\nbad\nworse\n", "2 of 3 lines cannot be used, such as line 2: bad"),
            ("0.0.0.0/0\n", "cannot be used"),
            ("192.0.2.1\n192.0.2.3\n192.0.2.5\n", "has 3 entries, and 2 are allowed"),
            ("\0\u{1}\u{2}", "cannot be used"),
        ] {
            let why = judge(bad.as_bytes(), 2).unwrap_err();
            assert!(why.contains(expected) && !why.contains('\0'), "{bad}: {why}");
        }
    }

    #[test]
    fn a_list_has_no_more_prefixes_than_all_lists_can_have() {
        let most = LIST_PREFIXES_MOST as usize;
        assert_eq!(check_sizes(2 * most, most, 2 * most), Ok(()));
        let why = check_sizes(2 * most, most + 1, 2 * most).unwrap_err();
        assert!(why.contains("262145 prefixes, and all lists together can have 262144"), "{why}");
    }

    #[test]
    fn a_list_that_is_read_to_its_end_has_bounded_prefixes() {
        let nested = "10.0.0.1\n".repeat(LIST_PREFIXES_MOST as usize + 2);
        let why = judge(nested.as_bytes(), 10).unwrap_err();
        assert!(why.contains("more than 262144 prefixes, and 10 entries are allowed"), "{why}");
    }

    #[test]
    fn the_process_writes_one_prefix_per_line() {
        let longest = "2001:db8:1111:2222:3333:4444:5555:6660/124\n";
        assert!(longest.len() as u64 <= LINE);
        assert_eq!(check(b"192.0.2.1\n192.0.2.0/24\n2001:db8::/32\n", 3), Ok(3));
        for bad in
            ["", "\n", "192.0.2.1 ; x\n", "192.0.2.1-192.0.2.9\n", "0.0.0.0/0\n", "\u{1b}\n", "::1\n::2\n::3\n::4\n"]
        {
            assert!(check(bad.as_bytes(), 3).is_err(), "{bad}");
        }
        assert!(check(b"\xff\n", 3).is_err());
    }
}
