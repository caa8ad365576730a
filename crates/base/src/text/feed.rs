//! Lists of addresses as feeds publish them, one entry per line.
//!
//! A `#` begins a comment, and so does a `;` at the start of a line or after a space. Of several columns, the first one
//! counts that is an address, a prefix or a range. Three columns can be one range: its first address, its last address,
//! and the length of its prefix. Bits of an address beyond its prefix are ignored.

use std::{
    io::{self, BufRead, Read as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use super::{
    excerpt::excerpt,
    prefix::{Prefix, PrefixError},
};

/// The most lines of a list.
const MOST_LINES: usize = 10_000_000;

/// The most bytes of a line.
const MOST_BYTES: u64 = 4_096;

/// The most bytes of a list: 1 GiB.
const MOST_OF_ALL: u64 = 1 << 30;

/// The most prefixes: more than any list can have. A range can have hundreds.
const MOST_PREFIXES: usize = 4_000_000;

/// The most lines whose cut address is kept.
const NAMED_CUTS: usize = 20;

/// The most lines that cannot be used.
const MOST_BAD: usize = 100_000;

/// The content of a list.
#[derive(Debug, Default)]
pub struct Feed {
    /// Each prefix with its line.
    pub prefixes: Vec<(Prefix, usize)>,
    /// The lines that cannot be used, in order.
    pub bad: Vec<Bad>,
    /// The first lines whose address has bits beyond its prefix, and what is used of them.
    pub cut: Vec<Bad>,
    /// The number of these lines.
    pub cuts: usize,
}

/// A line that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bad {
    pub line: usize,
    pub why: String,
}

/// A list that cannot be read to its end.
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    #[error("more than {MOST_LINES} lines: nothing was changed, give a shorter list")]
    Lines,
    #[error("more than {0} prefixes: nothing was changed, give a shorter list")]
    Prefixes(usize),
    #[error("more than 1 GiB: nothing was changed, give a shorter list")]
    Bytes,
    #[error("more than {MOST_BAD} lines cannot be used: nothing was changed, check that it is a list")]
    Bad,
    #[error("is a web page, not a list: nothing was changed, check where it comes from")]
    Page,
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Reads a list to its end.
///
/// # Errors
///
/// Fails if the list is too long, is probably no list, or cannot be read.
pub fn read(input: impl BufRead) -> Result<Feed, FeedError> {
    read_within(input, MOST_PREFIXES)
}

/// Reads a list with about so many prefixes at most. Fails like [`read`].
pub fn read_within(input: impl BufRead, most: usize) -> Result<Feed, FeedError> {
    let most = most.min(MOST_PREFIXES);
    let (mut feed, mut line, mut text) = (Feed::default(), 0, Vec::new());
    let mut input = input.take(MOST_OF_ALL);
    while input.by_ref().take(MOST_BYTES).read_until(b'\n', &mut text)? != 0 {
        line += 1;
        if line > MOST_LINES {
            return Err(FeedError::Lines);
        }
        if feed.prefixes.len() > most {
            return Err(FeedError::Prefixes(most));
        }
        if feed.bad.len() > MOST_BAD {
            return Err(FeedError::Bad);
        }
        if text.len() as u64 == MOST_BYTES && !text.ends_with(b"\n") {
            input.skip_until(b'\n')?;
            feed.bad.push(Bad { line, why: format!("is longer than {MOST_BYTES} bytes") });
        } else {
            let words = String::from_utf8_lossy(&text);
            let entry = entry(&words);
            if entry.starts_with('<') && feed.prefixes.is_empty() && feed.bad.is_empty() {
                return Err(FeedError::Page);
            }
            let Feed { prefixes, cut, cuts, .. } = &mut feed;
            let found = |prefix: Prefix, address: Option<IpAddr>| {
                prefixes.push((prefix, line));
                let Some(address) = address else { return };
                *cuts += 1;
                if *cuts <= NAMED_CUTS {
                    cut.push(Bad { line, why: format!("{address}/{} is {prefix}", prefix.bits()) });
                }
            };
            if let Err(error) = each_prefix(entry, found) {
                feed.bad.push(Bad { line, why: format!("{}: {error}", excerpt(entry)) });
            }
        }
        text.clear();
    }
    if input.limit() == 0 { Err(FeedError::Bytes) } else { Ok(feed) }
}

/// Returns a line without its comment.
fn entry(line: &str) -> &str {
    let line = line.trim_start_matches('\u{feff}');
    let line = line.split('#').next().unwrap_or_default();
    let is_comment = |(at, _): &(usize, &str)| line[..*at].chars().next_back().is_none_or(char::is_whitespace);
    let end = line.match_indices(';').find(is_comment).map_or(line.len(), |(at, _)| at);
    line[..end].trim()
}

/// Calls `found` with each prefix of an entry, and with its address if that has bits beyond the prefix. An empty entry has
/// none.
fn each_prefix(entry: &str, mut found: impl FnMut(Prefix, Option<IpAddr>)) -> Result<(), PrefixError> {
    let mut wrong = None;
    let joined;
    let entry = if entry.contains(" - ") {
        joined = entry.replace(" - ", "-");
        &joined
    } else {
        entry
    };
    let is_gap = |character: char| character.is_whitespace() || matches!(character, ',' | ';' | '|');
    let mut columns = entry.split(is_gap).map(|column| column.trim_matches(['"', '\''])).filter(|it| !it.is_empty());
    while let Some(column) = columns.next() {
        match column.parse() {
            Ok(prefix) => {
                found(block_of(column, columns).unwrap_or(prefix), None);
                return Ok(());
            }
            Err(PrefixError::HostBits(prefix, address)) => {
                found(prefix, Some(address));
                return Ok(());
            }
            Err(error) => {
                if let Some((first, last)) = range(column) {
                    return each_of_range(first, last, |prefix| found(prefix, None));
                }
                // A later column tells more only if it is nearly an address.
                wrong = wrong.filter(|_| error == PrefixError::Address).or(Some(error));
            }
        }
    }
    wrong.map_or(Ok(()), Err)
}

/// Returns the prefix that three columns describe: this one has its first address, and the rest begins with its last one
/// and its length. Two addresses alone can be anything, such as the ends of a connection.
fn block_of<'a>(first: &str, mut rest: impl Iterator<Item = &'a str>) -> Option<Prefix> {
    let (last, length): (IpAddr, &str) = (rest.next()?.parse().ok()?, rest.next()?);
    let prefix: Prefix = format!("{first}/{length}").parse().ok()?;
    let mut parts = 0;
    let mut is_whole = false;
    each_of_range(first.parse().ok()?, last, |part| {
        parts += 1;
        is_whole = part == prefix;
    })
    .ok()?;
    (is_whole && parts == 1).then_some(prefix)
}

/// Returns the first and the last address of a range.
fn range(text: &str) -> Option<(IpAddr, IpAddr)> {
    let (first, last) = text.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?))
}

/// Calls `found` with the prefixes that make up a range, in order.
fn each_of_range(first: IpAddr, last: IpAddr, mut found: impl FnMut(Prefix)) -> Result<(), PrefixError> {
    let (mut next, last, family_bits) = match (first, last) {
        (IpAddr::V4(first), IpAddr::V4(last)) => (u128::from(first.to_bits()), u128::from(last.to_bits()), 32),
        (IpAddr::V6(first), IpAddr::V6(last)) => (first.to_bits(), last.to_bits(), 128),
        _ => return Err(PrefixError::Range),
    };
    if next > last {
        return Err(PrefixError::Range);
    }
    loop {
        // The largest block that begins here, and then the largest that ends in the range.
        let mut host_bits = next.trailing_zeros().min(family_bits);
        while host_bits > 0 && (last - next) < block(host_bits) {
            host_bits -= 1;
        }
        let address = match first {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::from_bits(next as u32)),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from_bits(next)),
        };
        found(Prefix::of_address(address, (family_bits - host_bits) as u8));
        match next.checked_add(block(host_bits)).and_then(|end| end.checked_add(1)) {
            Some(after) if after <= last => next = after,
            _ => return Ok(()),
        }
    }
}

/// Returns the number of addresses in a block of so many bits, minus 1.
fn block(host_bits: u32) -> u128 {
    u128::MAX.checked_shr(128 - host_bits).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(text: &str) -> (Vec<String>, Vec<String>) {
        let feed = read(text.as_bytes()).unwrap();
        let bad = feed.bad.into_iter().map(|bad| format!("{}: {}", bad.line, bad.why)).collect();
        (feed.prefixes.iter().map(|(prefix, line)| format!("{line}: {prefix}")).collect(), bad)
    }

    #[test]
    fn what_feeds_contain_is_read() {
        for (line, expected) in [
            ("1.10.16.0/20 ; SBL256894", vec!["1.10.16.0/20"]),
            ("; 192.0.2.1 was removed", vec![]),
            ("# 192.0.2.1", vec![]),
            ("\u{feff}192.0.2.1 # first", vec!["192.0.2.1"]),
            ("192.0.2.9/24", vec!["192.0.2.0/24"]),
            ("2001:db8::1/32\r", vec!["2001:db8::/32"]),
            ("\"2024-05-01\",\"192.0.2.1\",\"443\"", vec!["192.0.2.1"]),
            ("name;192.0.2.1;192.0.2.2", vec!["192.0.2.1"]),
            ("scanner\t192.0.2.1\t9", vec!["192.0.2.1"]),
            ("192.0.2.0\t192.0.2.255\t24\t3", vec!["192.0.2.0/24"]),
            ("192.0.2.0\t192.0.2.255\t25", vec!["192.0.2.0"]),
            ("192.0.2.4-192.0.2.9", vec!["192.0.2.4/30", "192.0.2.8/31"]),
            ("192.0.2.4 - 192.0.2.4 , x", vec!["192.0.2.4"]),
            ("0.0.0.0-255.255.255.255", vec!["0.0.0.0/0"]),
            ("::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", vec!["::/0"]),
        ] {
            let (prefixes, bad) = lines(line);
            let prefixes: Vec<_> = prefixes.iter().filter_map(|prefix| prefix.strip_prefix("1: ")).collect();
            assert_eq!((prefixes, bad), (expected, vec![]), "{line}");
        }
    }

    #[test]
    fn what_cannot_be_used_is_named_with_its_line() {
        let (prefixes, bad) = lines("ip,date\n10.0.0.1\n10.0.0.9-10.0.0.1\n10.0.0.0/33 x\n10.0.0.1-::2\n");
        assert_eq!(prefixes, ["2: 10.0.0.1"]);
        assert_eq!(bad.len(), 4, "{bad:?}");
        assert!(bad[0].starts_with("1: ip,date: expected an address"), "{bad:?}");
        assert!(bad[1].ends_with("10.0.0.9-10.0.0.1: the range ends before it begins, or in the other family"));
        assert!(bad[2].ends_with("at most 32 bits after the slash"), "{bad:?}");
    }

    #[test]
    fn any_bytes_are_read() {
        let feed = read(&b"\xff\xfe\n10.0.0.256\n::/129"[..]).unwrap();
        assert!(feed.prefixes.is_empty());
        assert_eq!(feed.bad.iter().map(|bad| bad.line).collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[test]
    fn long_lines_are_bad_and_the_next_line_is_read() {
        let long = "1".repeat(3 * MOST_BYTES as usize);
        let (prefixes, bad) = lines(&format!("{long}\n10.0.0.1\n{long}"));
        assert_eq!(prefixes, ["2: 10.0.0.1"]);
        assert_eq!(bad, ["1: is longer than 4096 bytes", "3: is longer than 4096 bytes"]);
    }

    #[test]
    fn bad_lines_cannot_control_the_terminal() {
        let (_, bad) = lines("\x1b[2Jaway\n");
        assert!(bad[0].starts_with("1: \\u{1b}[2Jaway: expected an address"), "{bad:?}");
    }

    #[test]
    fn endless_input_is_refused() {
        for (byte, why) in [(b'\n', "more than 10000000 lines"), (b'1', "more than 1 GiB")] {
            let endless = io::BufReader::new(io::repeat(byte));
            assert!(read(endless).unwrap_err().to_string().contains(why));
        }
        let ranges = "::1-ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe\n".repeat(MOST_PREFIXES / 200);
        assert!(read(ranges.as_bytes()).unwrap_err().to_string().contains("more than 4000000 prefixes"));
        let bad = io::BufReader::new(io::Cursor::new(b"1\n".repeat(MOST_BAD + 2)));
        assert!(read(bad).unwrap_err().to_string().contains("more than 100000 lines"));
    }

    proptest! {
        #[test]
        fn a_range_becomes_the_fewest_prefixes_with_exactly_its_addresses(first: u32, length in 0u32..1 << 20) {
            let last = first.saturating_add(length);
            let mut next = u64::from(first);
            let mut blocks = Vec::new();
            each_of_range(Ipv4Addr::from(first).into(), Ipv4Addr::from(last).into(), |prefix| {
                blocks.push((prefix.source().address(), prefix.bits()));
            })?;
            for ([a, b, c, d, ..], bits) in &blocks {
                prop_assert_eq!(u64::from(u32::from_be_bytes([*a, *b, *c, *d])), next);
                next += 1 << (32 - bits);
            }
            prop_assert_eq!(next, u64::from(last) + 1);
            // Two neighbours of the same length are never halves of one block.
            let halves = blocks.windows(2).filter(|pair| {
                let [([a, b, c, d, ..], bits), (_, other)] = pair else { return false };
                bits == other && u32::from_be_bytes([*a, *b, *c, *d]).trailing_zeros() > u32::from(32 - bits)
            });
            prop_assert_eq!(halves.count(), 0);
        }
    }
}
