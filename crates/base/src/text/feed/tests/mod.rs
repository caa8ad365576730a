//! What lines give: all that they say, or a problem with the line.

mod packed;
mod whole;

use std::{io, net::Ipv4Addr};

use proptest::prelude::*;

use super::{item::Item, *};
use crate::text::prefix::Prefix;

/// Returns the prefixes with their lines, and the problems with theirs.
fn lines(text: impl AsRef<[u8]>) -> (Vec<String>, Vec<String>) {
    let feed = read(text.as_ref()).unwrap();
    let bad = feed.bad.into_iter().map(|bad| format!("{}: {}", bad.line, bad.why)).collect();
    (feed.prefixes.iter().map(|(prefix, line)| format!("{line}: {prefix}")).collect(), bad)
}

/// Returns the prefixes of a text without a problem, joined by spaces.
fn all(text: impl AsRef<[u8]>) -> String {
    let feed = read(text.as_ref()).unwrap();
    let shown = String::from_utf8_lossy(text.as_ref());
    assert_eq!(feed.bad, [], "{shown}");
    feed.prefixes.iter().map(|(prefix, _)| prefix.to_string()).collect::<Vec<_>>().join(" ")
}

/// Returns why a list is refused.
fn refused(text: impl AsRef<[u8]>) -> String {
    read(text.as_ref()).unwrap_err().to_string()
}

#[test]
fn lines_are_taken_whole() {
    for (line, expected) in [
        ("", ""),
        ("192.0.2.1", "192.0.2.1"),
        ("1.10.16.0/20 ; SBL256894", "1.10.16.0/20"),
        ("192.0.2.1;SBL1", "192.0.2.1"),
        ("\u{feff}192.0.2.1 # first", "192.0.2.1"),
        ("\u{a0}192.0.2.1\u{a0}", "192.0.2.1"),
        ("192.0.2.9/24", "192.0.2.0/24"),
        ("2001:db8::1/32\r", "2001:db8::/32"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("[2001:db8::1] # scanner", "2001:db8::1"),
        // Columns of numbers, dates and texts.
        ("\"2024-05-01\",\"192.0.2.1\",\"443\"", "192.0.2.1"),
        ("\"Example, Inc.\",192.0.2.1", "192.0.2.1"),
        ("scanner\t192.0.2.1\t9", "192.0.2.1"),
        ("192.0.2.1,NO,2024-05-01T12:00:00Z,1.5", "192.0.2.1"),
        ("     12 192.0.2.1", "192.0.2.1"),
        ("2024-05-01 12:00:00 192.0.2.1", "192.0.2.1"),
        ("192.0.2.1 - scanner of 00:11:22:33:44:55", "192.0.2.1"),
        ("192.0.2.1 host-1.2.3.4.example.net", "192.0.2.1"),
        ("| 192.0.2.1 | scanner |", "192.0.2.1"),
        ("192.0.2.1#4#2#Malicious Host#CN##39.9,116.4#3", "192.0.2.1"),
        ("\"192.0.2.1\",", "192.0.2.1"),
        // Ranges, networks and masks.
        ("192.0.2.4-192.0.2.9", "192.0.2.4/30 192.0.2.8/31"),
        ("192.0.2.4 - 192.0.2.9", "192.0.2.4/30 192.0.2.8/31"),
        ("192.0.2.4 – 192.0.2.9 scanner", "192.0.2.4/30 192.0.2.8/31"),
        ("192.0.2.4 - 192.0.2.4 , x", "192.0.2.4"),
        ("192.0.2.0 - 192.0.2.255 , 100 , x", "192.0.2.0/24"),
        ("2001:db8::-2001:db8::ff", "2001:db8::/120"),
        ("203.0.113.0,203.0.113.255,ZZ", "203.0.113.0/24"),
        ("\"1.0.1.0\",\"1.0.3.255\",\"CN\"", "1.0.1.0/24 1.0.2.0/23"),
        ("192.0.2.0\t192.0.2.255\t24\t3", "192.0.2.0/24"),
        ("2001:db8::,2001:db8:0:ffff:ffff:ffff:ffff:ffff,ZZ", "2001:db8::/48"),
        ("203.0.113.0 255.255.255.0", "203.0.113.0/24"),
        ("203.0.113.7 255.255.255.255", "203.0.113.7/32"),
        ("203.0.113.0 0.0.0.255", "203.0.113.0/24"),
        ("203.0.113.0/255.255.255.0", "203.0.113.0/24"),
        ("203.0.113.0/0.0.0.127", "203.0.113.0/25"),
        ("192.0.2.*", "192.0.2.0/24"),
        ("192.0.*.*", "192.0.0.0/16"),
        ("Example (v4), Inc:192.0.2.0-192.0.2.255", "192.0.2.0/24"),
        // Several on one line.
        ("192.0.2.1 192.0.2.2 192.0.2.3", "192.0.2.1 192.0.2.2 192.0.2.3"),
        ("192.0.2.0/24, 198.51.100.0/24", "192.0.2.0/24 198.51.100.0/24"),
        ("192.0.2.1 2001:db8::1", "192.0.2.1 2001:db8::1"),
        // Rules of other programs.
        ("deny 192.0.2.0/24;", "192.0.2.0/24"),
        ("deny ip 203.0.113.0 0.0.0.255 any", "203.0.113.0/24"),
        ("access-list 101 deny ip host 203.0.113.1 any log", "203.0.113.1"),
        ("Deny from 192.0.2.1", "192.0.2.1"),
        ("all:192.0.2.1", "192.0.2.1"),
        ("ALL: 192.0.2.0/255.255.255.0", "192.0.2.0/24"),
        ("192.0.2.0/24 1;", "192.0.2.0/24"),
        ("add blocked 192.0.2.1", "192.0.2.1"),
        ("add blocked 192.0.2.0/24 timeout 90 comment \"has nomatch, and timeout 5\"", "192.0.2.0/24"),
        ("-A INPUT -s 192.0.2.1/32 -j DROP", "192.0.2.1"),
        ("iptables -I INPUT 1 -s 192.0.2.0/24,198.51.100.7 -j REJECT --reject-with x", "192.0.2.0/24 198.51.100.7"),
    ] {
        assert_eq!(all(line).replace("/32 ", " ").trim_end_matches("/32"), expected.trim_end_matches("/32"), "{line}");
    }
}

#[test]
fn lines_that_say_something_else_are_named() {
    for (line, why) in [
        ("ip,date", "expected an address"),
        ("example.com", "expected an address"),
        ("192.0.2", "expected an address"),
        ("10.0.0.0/33 x", "at most 32 bits after the slash"),
        ("10.0.0.9-10.0.0.1", "ends before it begins"),
        ("10.0.0.1-::2", "ends before it begins"),
        ("192.0.2.9 - 192.0.2.1", "ends before it begins"),
        ("0.0.0.0/0", "too wide for a list"),
        ("2001::/8", "2001::/8: too wide for a list"),
        ("0.0.0.0 - 255.255.255.255", "too wide for a list"),
        ("::ffff:192.0.2.1", "write 192.0.2.1"),
        ("192.0.2.1:443", "has a port"),
        ("[2001:db8::1]:443", "has a port"),
        ("192.0.2.1#53", "has a port"),
        ("scanner;192.0.2.1:443", "has a port"),
        ("fe80::1%eth0", "has the zone"),
        ("010.0.0.1", "octal"),
        ("192.00.002.001 , 000 , x", "octal"),
        ("192.0.2.0 /24", "stands apart"),
        ("192.0.2.0,24", "192.0.2.0/24, or 192.0.2.0 with a number"),
        ("2001:db8:: 32", "2001:db8::/32, or 2001:db8:: with a number"),
        // Half of these lines could be read.
        ("192.0.2.1,198.51.100.300", "`198.51.100.300` is no address"),
        ("192.0.2.1 192.0.2.", "`192.0.2.` is no address"),
        ("192.0.2.1 192.0.3.x", "`192.0.3.x` is no address"),
        ("192.0.2.1-9", "expected an address"),
        ("192.0.2.1 - 9", "several"),
        ("192.0.2.1 192.0.2.9", "several"),
        ("name;192.0.2.1;192.0.2.2", "several"),
        ("192.0.2.9 192.0.2.1", "several"),
        ("192.0.2.0/24 via 198.51.100.1", "several"),
        ("192.0.2.0 255.0.255.0", "several"),
        ("0.0.0.0 255.255.255.255", "several"),
        ("192.0.2.0 192.0.2.255 198.51.100.0 198.51.100.255", "several"),
        ("192.0.2.0 255.255.255.0 192.0.2.1", "several"),
        ("deny ip host 192.0.2.1 host 198.51.100.1", "several"),
        ("192.0.2.1,http://198.51.100.1/x", "is no address"),
        ("192.0.2.1\0", "expected an address"),
        ("\u{200b}192.0.2.1", "expected an address"),
        ("<ip>192.0.2.1</ip>x", "web page"),
        ("from 192.0.2.1", "`from` before the address"),
        ("deny tcp host 192.0.2.1 any eq 22", "`tcp` before the address"),
        ("deny ip any 192.0.2.0 0.0.0.255", "`any` before the address"),
        ("deny from 192.0.2.1 to any port 22", "`port` behind the address"),
        ("sshd: 192.0.2.1", "`sshd:` before the address"),
        ("-A INPUT -s 192.0.2.1 -p tcp --dport 22 -j DROP", "says more than that a source is dropped"),
        ("-A OUTPUT -d 192.0.2.1 -j DROP", "says more than that a source is dropped"),
        ("add blocked 192.0.2.1,tcp:80", "is no address"),
        ("192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] \"GET /\" 200", "log of a web server"),
    ] {
        let outcome = read(line.as_bytes());
        if let Err(error) = &outcome {
            assert!(error.to_string().contains(why), "{line}: {error}");
            continue;
        }
        let feed = outcome.unwrap();
        assert_eq!((feed.prefixes.len(), feed.bad.len()), (0, 1), "{line}: {feed:?}");
        assert!(feed.bad[0].why.contains(why), "{line}: {feed:?}");
    }
}

#[test]
fn what_a_file_excludes_is_never_taken() {
    // Comments are left out without a word, and all else is named.
    for line in [
        "# 192.0.2.1",
        "; 192.0.2.1 was removed",
        "// 192.0.2.10 was our office, removed",
        "//192.0.2.10",
        "-- 192.0.2.13",
        "REM 192.0.2.14",
        "rem 192.0.2.14",
        "<!-- 192.0.2.15 -->",
        "/* 192.0.2.15 */",
        "/*\n192.0.2.15\n192.0.2.16 */",
        "<!--\n192.0.2.15\n-->",
    ] {
        assert_eq!(all(line), "", "{line}");
    }
    for line in [
        "- 192.0.2.16",
        "! 192.0.2.12",
        "!192.0.2.12",
        "-192.0.2.12",
        "~192.0.2.12",
        "* 192.0.2.12",
        "% 192.0.2.12",
        "' 192.0.2.12",
        "allow 192.0.2.18;",
        "permit ip host 192.0.2.18 any",
        "no deny ip host 192.0.2.18 any",
        "remark 192.0.2.18",
        "192.0.2.18 allow",
        "192.0.2.18,whitelisted",
        "192.0.2.18\tOK",
        "192.0.2.18 OK by us",
        "192.0.2.18;false-positive",
        "192.0.2.18 0;",
        "removed;192.0.2.18",
        "192.0.2.0 - 192.0.2.255 , 200 , a range that passes",
        "not 192.0.2.18",
        "ALL EXCEPT 192.0.2.18",
        "ALL: 192.0.2.18 : ALLOW",
        "del blocked 192.0.2.18",
        "add blocked 192.0.2.0/24 nomatch",
        "add blocked 192.0.2.0/24 nomatch comment \"x\"",
        "-A INPUT -s 192.0.2.18 -j ACCEPT",
        "-A INPUT ! -s 192.0.2.18 -j DROP",
        "-D INPUT -s 192.0.2.18 -j DROP",
        "ip saddr != 192.0.2.18 drop",
        "ufw delete deny from 192.0.2.18",
        "deny 192.0.2.1; allow 192.0.2.2;",
    ] {
        let feed = read(line.as_bytes()).unwrap();
        assert_eq!((feed.prefixes.len(), feed.bad.len()), (0, 1), "{line}: {feed:?}");
    }
    // A heading stands for all below it.
    let (prefixes, bad) =
        lines("[blocklist]\n192.0.2.1\n[whitelist]\n192.0.2.2\nallow 192.0.2.3\n[blocked]\n192.0.2.4");
    assert_eq!((prefixes, bad.len()), (vec!["2: 192.0.2.1".to_owned(), "7: 192.0.2.4".to_owned()], 5));
    let (prefixes, bad) = lines("acl trusted {\n192.0.2.2;\n};\n192.0.2.4");
    assert_eq!((prefixes, bad.len()), (vec!["4: 192.0.2.4".to_owned()], 3));
    // What contains an exception is more than the file says.
    let (prefixes, bad) = lines("192.0.2.0/24\n198.51.100.0/24\n!192.0.2.7\nallow 0.0.0.0/0;\n");
    assert_eq!(prefixes, ["2: 198.51.100.0/24"]);
    assert!(bad[0].starts_with("1: contains 192.0.2.7, which the list excludes elsewhere"), "{bad:?}");
    // What is in quotes over several lines is a comment.
    let (prefixes, bad) = lines("add s 192.0.2.9 comment \"two\nadd s 10.0.0.0/8\nlines\"\nadd s 192.0.2.1\n");
    assert_eq!((prefixes, bad.len()), (vec!["4: 192.0.2.1".to_owned()], 3));
}

#[test]
fn comments_behind_an_address_can_have_anything() {
    for rest in [
        " # allow 192.0.2.2",
        " // 192.0.2.2",
        " -- removed",
        " /* 192.0.2.2 */",
        " <!-- x -->",
        "; allowed",
        "\t#",
        "#x",
    ] {
        let rest = rest.replace("; a", " ; a");
        assert_eq!(all(format!("192.0.2.1{rest}")), "192.0.2.1", "{rest}");
    }
    assert_eq!(all("/* a */ 192.0.2.1 /* b */"), "192.0.2.1");
    // Not in quotes: the second address would be lost.
    let (prefixes, bad) = lines("\"192.0.2.1\",\"#5\",\"192.0.2.2\"");
    assert_eq!((prefixes.len(), bad.len()), (0, 1));
}

#[test]
fn lines_end_as_on_any_system() {
    for text in ["192.0.2.1\n192.0.2.2\n\nx", "192.0.2.1\r192.0.2.2\r\rx", "192.0.2.1\r\n192.0.2.2\r\n\r\nx\r\n"] {
        let (prefixes, bad) = lines(text);
        assert_eq!(prefixes, ["1: 192.0.2.1", "2: 192.0.2.2"]);
        assert!(bad.len() == 1 && bad[0].starts_with("4: x: "), "{bad:?}");
    }
    // Both bytes of an end can come apart.
    let apart = io::BufReader::with_capacity(10, &b"192.0.2.1\r\n192.0.2.2"[..]);
    assert_eq!(read(apart).unwrap().prefixes.iter().map(|(_, line)| *line).collect::<Vec<_>>(), [1, 2]);
}

proptest! {
    #[test]
    fn a_range_becomes_the_fewest_prefixes_with_exactly_its_addresses(first: u32, length in 0u32..1 << 20) {
        let last = first.saturating_add(length);
        let mut next = u64::from(first);
        let mut blocks = Vec::new();
        Item::range(Ipv4Addr::from(first).into(), Ipv4Addr::from(last).into()).unwrap().each(|prefix| {
            blocks.push((prefix.source().address(), prefix.bits()));
        });
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

    /// Parts of lines in any order: a line that is used covers each address in it, and has no word that excludes one.
    #[test]
    fn a_line_is_taken_whole_or_not_at_all(
        parts in proptest::collection::vec((0usize..26, 0usize..6), 1..7),
    ) {
        const PARTS: [&str; 26] = [
            "192.0.2.1", "198.51.100.0/24", "203.0.113.9", "2001:db8::1", "255.255.255.0", "0.0.0.255", "192.0.2.300",
            "192.0.2.7:80", "192.0.2.", "allow", "deny", "!", "-", "to", "scanner", "9", "24", "/24", "2024-05-01",
            "203.0.113.255", "203.0.113.0", "add", "-s", "nomatch", "all:", "OK",
        ];
        let gaps = [" ", ",", ";", "\t", " - ", "|"];
        let line: String = parts.iter().flat_map(|(part, gap)| [PARTS[*part], gaps[*gap]]).collect();
        let feed = read(line.as_bytes()).unwrap();
        // The comment behind ` ;` does not count.
        let said = line.find(" ;").map_or(line.as_str(), |end| &line[..end]);
        if !feed.prefixes.is_empty() {
            prop_assert!(feed.bad.is_empty(), "{}", line);
            for word in said.split([' ', ',', ';', '\t', '|']) {
                prop_assert!(!["allow", "!", "nomatch", "192.0.2.300", "192.0.2.7:80", "/24"].contains(&word), "{}", line);
                let Ok(prefix) = word.parse::<Prefix>() else { continue };
                let is_covered = feed.prefixes.iter().any(|(taken, _)| taken.contains(&prefix));
                prop_assert!(is_covered || ["255.255.255.0", "0.0.0.255"].contains(&word), "{}: {:?}", line, feed);
            }
        }
    }

    #[test]
    fn any_text_is_read(bytes in proptest::collection::vec(any::<u8>(), 0..200), text in "\\PC{0,80}") {
        drop(read(bytes.as_slice()));
        drop(read(text.as_bytes()));
        drop(read(format!("[\"{text}\"]").as_bytes()));
    }
}
