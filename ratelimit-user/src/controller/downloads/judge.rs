//! Whether what a server has sent is a list.

use crate::{dataplane::lists::entries, text::feed};

/// Checks that a text is a list of at most so many entries. At least half of its lines must be usable.
pub(super) fn judge(text: &[u8], most: usize) -> Result<(), String> {
    let begin = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text).trim_ascii_start();
    if begin.starts_with(b"<") {
        return Err("the answer is a web page, not a list: check the address".to_owned());
    }
    let feed = feed::read(text).map_err(|error| format!("the answer is no list: {error}"))?;
    // A range has several prefixes on its line.
    let mut with_prefix: Vec<usize> = feed.prefixes.iter().map(|(_, line)| *line).collect();
    with_prefix.dedup();
    let lines = with_prefix.len() + feed.bad.len();
    let (entries, bad) = entries::of_feed(feed);
    if let Some(first) = bad.first().filter(|_| 2 * bad.len() > lines) {
        let bad = bad.len();
        let (line, why) = (first.line, &first.why);
        return Err(format!(
            "the answer is no list: {bad} of {lines} lines cannot be used, such as line {line}: {why}"
        ));
    }
    match entries.len() {
        0 => Err("the answer has no address".to_owned()),
        count if count > most => {
            Err(format!("the list has {count} entries, and {most} are allowed: raise max-entries if this is right"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_addresses_on_most_of_its_lines() {
        for good in ["192.0.2.1\n", "# feed\n192.0.2.0/24 ; SBL1\n\nbad\n", "192.0.2.1-192.0.2.9\nbad", "2001:db8::/32"]
        {
            assert_eq!(judge(good.as_bytes(), 10), Ok(()), "{good}");
        }
        for (bad, expected) in [
            ("", "has no address"),
            ("# the server is down\n", "has no address"),
            ("\u{feff} <!DOCTYPE html>\n192.0.2.1\n", "is a web page"),
            ("{\"error\":\"quota\"}\n", "1 of 1 lines cannot be used, such as line 1"),
            ("192.0.2.1\nbad\nworse\n", "2 of 3 lines cannot be used, such as line 2: bad"),
            ("0.0.0.0/0\n", "cannot be used"),
            ("192.0.2.1\n192.0.2.3\n192.0.2.5\n", "has 3 entries, and 2 are allowed"),
            ("\0\u{1}\u{2}", "cannot be used"),
        ] {
            let why = judge(bad.as_bytes(), 2).unwrap_err();
            assert!(why.contains(expected) && !why.contains('\0'), "{bad}: {why}");
        }
    }
}
