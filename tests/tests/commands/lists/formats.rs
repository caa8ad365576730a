//! Files of other programs as lists: taken whole, or named.

use std::{fs, io::Write as _};

use flate2::{Compression, write::GzEncoder};
use ratelimit_tests::{Folder, Ratelimit, Sandbox};

use super::dropped;

/// Files, and the entries that they give.
const TAKEN: &[(&str, &str)] = &[
    ("203.0.113.0,203.0.113.255,ZZ\n198.51.100.0,198.51.100.127,ZZ\n", "198.51.100.0/25 203.0.113.0/24"),
    ("203.0.113.0 255.255.255.0\n198.51.100.0/0.0.0.255\n", "198.51.100.0/24 203.0.113.0/24"),
    ("access-list 101 deny ip 203.0.113.0 0.0.0.255 any\n", "203.0.113.0/24"),
    ("192.0.2.1\r192.0.2.3\r192.0.2.5\r", "192.0.2.1 192.0.2.3 192.0.2.5"),
    ("\u{feff}192.0.2.1\u{a0}\r\n192.0.2.3 // office: 192.0.2.4\r\n", "192.0.2.1 192.0.2.3"),
    ("/* old\n192.0.2.1 */\n<!-- 192.0.2.2 -->\n-- 192.0.2.3\nREM 192.0.2.4\n192.0.2.5\n", "192.0.2.5"),
    (
        "[\"203.0.113.0/24\",\"198.51.100.0/25\",\"2001:db8:66::/48\"]",
        "198.51.100.0/25 2001:db8:66::/48 203.0.113.0/24",
    ),
    ("{\"cidr\":\"2001:db8::/32\",\"sblid\":\"SBL1\"}\n{\"type\":\"metadata\",\"size\":1}\n", "2001:db8::/32"),
    (
        "{\"prefixes\":[{\"ip_prefix\":\"192.0.2.0/24\"}],\"ipv6_prefixes\":[{\"ipv6_prefix\":\"2001:db8::/32\"}]}",
        "192.0.2.0/24 2001:db8::/32",
    ),
    ("deny 192.0.2.0/24;\ndeny 2001:db8::/32;\n", "192.0.2.0/24 2001:db8::/32"),
    (
        "add blocked 192.0.2.1 timeout 9 comment \"a nomatch\"\nadd blocked 198.51.100.0/24\n",
        "192.0.2.1 198.51.100.0/24",
    ),
    ("-A INPUT -s 192.0.2.1/32 -j DROP\n", "192.0.2.1"),
    ("Example, Inc:192.0.2.0-192.0.2.255\n", "192.0.2.0/24"),
    ("ALL: 192.0.2.1\nall:198.51.100.0/255.255.255.0\n", "192.0.2.1 198.51.100.0/24"),
    ("192.0.2.1 192.0.2.3 192.0.2.5\n198.51.100.*\n", "192.0.2.1 192.0.2.3 192.0.2.5 198.51.100.0/24"),
];

/// Files of which `--strict` takes nothing, with a line that is named or a reason.
const REFUSED: &[(&str, &str)] = &[
    ("192.0.2.1 192.0.2.9\n", "line 1: 192.0.2.1 192.0.2.9: has several addresses"),
    ("192.0.2.1,198.51.100.300\n", "line 1: 192.0.2.1,198.51.100.300: `198.51.100.300` is no address"),
    ("192.0.2.0,24\n", "can be 192.0.2.0/24, or 192.0.2.0 with a number"),
    ("! 192.0.2.12\n", "`!` can mean that the address is not to be listed"),
    ("- 192.0.2.16\n", "`-` before the address can make it a comment"),
    ("allow 192.0.2.18;\n", "`allow` can mean that the address is not to be listed"),
    ("192.0.2.0/24\n!192.0.2.7\n198.51.100.1\n", "line 1: contains 192.0.2.7, which the list excludes elsewhere"),
    ("198.51.100.1\n198.51.100.3\n[whitelist]\n192.0.2.1\n", "line 4: 192.0.2.1: `[whitelist]` can mean"),
    ("-A INPUT -s 192.0.2.1 -p tcp --dport 22 -j DROP\n", "says more than that a source is dropped"),
    ("192.0.2.1:443\n", "line 1: 192.0.2.1:443: has a port"),
    ("010.0.0.1\n", "can be octal"),
    ("2001::/8\n", "line 1: 2001::/8: too wide for a list"),
    (
        "127.0.0.1 localhost\n0.0.0.0 a.example\n0.0.0.0 b.example\n",
        "looks like a hosts file: 3 lines gave 2 different",
    ),
    ("a.example\nb.example\nc.example\n", "has 3 names and no address: nothing was changed"),
    ("\n<!-- x --><html>192.0.2.33</html>\n", "is a web page, not a list: nothing was changed"),
    (
        "1\x009\x002\x00.\x000\x00.\x002\x00.\x001\x00\n\x00",
        "is text in UTF-16LE: nothing was changed, convert it to UTF-8",
    ),
    ("[\"192.0.2.1\",\n\"192.0.", "is JSON, but cut or damaged: line 2: EOF"),
    ("{\"deny\":[\"192.0.2.1\"],\"allow\":[\"192.0.2.2\"]}", "line 1: 192.0.2.2: `allow` can mean"),
    ("[{\"ip\":\"192.0.2.1\",\"isWhitelisted\":true}]", "`isWhitelisted` can mean"),
    ("create a hash:ip family inet netmask 24\nadd a 192.0.2.0\n", "copy it with `ratelimit list import ipset`"),
];

#[test]
fn files_of_other_programs_are_taken_whole_or_named() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    let folder = Folder::new();
    let file = folder.file().with_file_name("feed");
    let set = |text: &[u8]| {
        fs::write(&file, text).unwrap();
        ratelimit.run(&format!("list set x {} --strict", file.display()))
    };
    let check = |text: &[u8], expected: &str| {
        let output = set(text);
        assert_eq!((output.status, output.stderr.as_str()), (0, ""), "{}", String::from_utf8_lossy(text));
        let entries = ratelimit.ok("list show x --entries");
        let mut entries: Vec<_> = entries.lines().collect();
        entries.sort_unstable();
        assert_eq!(entries.join(" "), expected, "{}", String::from_utf8_lossy(text));
        ratelimit.ok("list del x");
    };
    for (text, expected) in TAKEN {
        check(text.as_bytes(), expected);
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(text.as_bytes()).unwrap();
        let packed = packed.finish().unwrap();
        check(&packed, expected);
        let output = set(&packed[..packed.len() - 5]);
        assert!(output.status == 2 && output.stderr.contains("is packed by gzip, but cut or damaged"), "{output:?}");
    }
    for (text, expected) in REFUSED {
        let output = set(text.as_bytes());
        assert!(output.status == 2 && output.stderr.contains(expected), "{text}: {output:?}");
    }
    assert_eq!(ratelimit.json("list list").as_array().unwrap().len(), 0);
    ratelimit.ok("detach --all");
}

#[test]
fn a_range_of_two_columns_is_denied_to_its_last_address() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    let feed = "10.1.0.0,10.1.0.255,ZZ\n10.2.0.0 255.255.255.0\n// 10.3.0.1\n! 10.3.0.2\n";
    ratelimit.ok_with("deny add - --skip-bad", feed);
    assert_eq!([[10, 1, 0, 255], [10, 2, 0, 77]].map(|source| dropped(&sandbox, &ratelimit, source)), [10, 10]);
    assert_eq!([[10, 3, 0, 1], [10, 3, 0, 2]].map(|source| dropped(&sandbox, &ratelimit, source)), [0, 0]);
    ratelimit.ok("detach --all");
}
