//! JSON, gzip, other kinds of files, and bounds.

use std::io::{self, Read as _, Write as _};

use flate2::{Compression, write::GzEncoder};

use super::{
    super::{
        content::{MOST_BAD, MOST_BYTES},
        lines::MOST_BYTES as MOST_OF_LINE,
        *,
    },
    all, lines, refused,
};

#[test]
fn json_is_taken_whole() {
    for (text, expected) in [
        ("[]", ""),
        (
            "[\"203.0.113.0/24\",\"198.51.100.0/25\",\"2001:db8:66::/48\"]",
            "203.0.113.0/24 198.51.100.0/25 2001:db8:66::/48",
        ),
        (
            "{\"cidr\":\"1.10.16.0/20\",\"sblid\":\"SBL256894\",\"rir\":\"apnic\"}\n{\"cidr\":\"2001:db8::/32\"}\n\
             {\"type\":\"metadata\",\"timestamp\":1,\"copyright\":\"(c) 2024 Example\"}\n",
            "1.10.16.0/20 2001:db8::/32",
        ),
        (
            "{\"syncToken\":\"1\",\"createDate\":\"2024-05-01-12-00-00\",\"prefixes\":[{\"ip_prefix\":\"192.0.2.0/24\",\
             \"region\":\"eu\"}],\"ipv6_prefixes\":[{\"ipv6_prefix\":\"2001:db8::/32\"}]}",
            "192.0.2.0/24 2001:db8::/32",
        ),
        (
            "{\"prefixes\":[{\"ipv4Prefix\":\"192.0.2.0/24\"},{\"ipv6Prefix\":\"2001:db8::/32\"}]}",
            "192.0.2.0/24 2001:db8::/32",
        ),
        ("\u{feff} {\"ssh_keys\":[\"ssh-ed25519 AAAA\"],\"hooks\":[\"192.0.2.0/24\"],\"x\":null}", "192.0.2.0/24"),
        ("[\"192.0.2.4-192.0.2.9\"]", "192.0.2.4/30 192.0.2.8/31"),
        ("[[\"203.0.113.0\",\"203.0.113.255\"]]", "203.0.113.0/24"),
        ("{\"range\":[\"192.0.2.4\",\"192.0.2.9\"]}", "192.0.2.4/30 192.0.2.8/31"),
        ("{\"start\":\"192.0.2.4\",\"end\":\"192.0.2.9\"}", "192.0.2.4/30 192.0.2.8/31"),
        ("{\"end_ip\":\"192.0.2.9\",\"start_ip\":\"192.0.2.4\"}", "192.0.2.4/30 192.0.2.8/31"),
        ("{\"network\":\"192.0.2.0\",\"netmask\":\"255.255.255.0\"}", "192.0.2.0/24"),
        ("{\"prefix\":{\"addr\":\"192.0.2.0\",\"len\":24}}", "192.0.2.0/24"),
        ("{\"network\":\"192.0.2.0\",\"prefix\":\"24\"}", "192.0.2.0/24"),
        ("{\"a\":\"192.0.2.0/24\",\"b\":\"198.51.100.0/24\"}", "192.0.2.0/24 198.51.100.0/24"),
        ("{\"v4\":\"192.0.2.1\",\"v6\":\"2001:db8::1\"}", "192.0.2.1 2001:db8::1"),
        ("[{\"ip\":\"192.0.2.1\",\"comment\":\"was 198.51.100.1\",\"whitelisted\":false}]", "192.0.2.1"),
        ("[\"192.0.2.1\",\"192.0.2.2\"]", "192.0.2.1 192.0.2.2"),
    ] {
        assert_eq!(all(text), expected, "{text}");
    }
    let (prefixes, bad) = lines("[\n \"192.0.2.1\",\n \"nonsense\",\n \"192.0.2.300\",\n \"192.0.2.2:80\", 5]");
    assert_eq!(prefixes, ["2: 192.0.2.1"]);
    assert_eq!(bad.iter().map(|bad| &bad[..2]).collect::<Vec<_>>(), ["3:", "4:", "5:", "5:"], "{bad:?}");
}

#[test]
fn what_json_excludes_or_says_in_halves_is_named() {
    for text in [
        "{\"allow\":[\"192.0.2.1\"]}",
        "{\"allow_list\":{\"ips\":[{\"ip\":\"192.0.2.1\"}]}}",
        "{\"exclude\":\"192.0.2.1\"}",
        "[{\"ip\":\"192.0.2.1\",\"action\":\"allow\"}]",
        "[{\"isWhitelisted\":true,\"ip\":\"192.0.2.1\"}]",
        "[{\"ip\":\"192.0.2.1\",\"enabled\":false}]",
        "[{\"ip\":\"192.0.2.1\",\"removed\":\"2024-05-01\"}]",
        "{\"ips\":[\"192.0.2.1\"],\"type\":\"whitelist\"}",
        "{\"cidr\":\"192.0.2.0/24\",\"except\":[\"192.0.2.7\"]}",
        "{\"deny\":[\"192.0.2.0/24\"],\"allow\":[\"192.0.2.7\"]}",
        "{\"src\":\"192.0.2.1\",\"dst\":\"192.0.2.77\"}",
        "{\"ip\":\"192.0.2.1\",\"asn_prefix\":\"192.0.0.0/16\"}",
        "{\"a\":\"192.0.2.0/25\",\"b\":\"192.0.2.0-192.0.3.255\"}",
        "{\"ip\":\"192.0.2.0\",\"prefix\":\"/24\"}",
        "{\"ip\":\"192.0.2.0\",\"len\":99}",
        "{\"ip\":3221225985}",
        "{\"ip\":\"example.com\"}",
        "{\"192.0.2.1\":{\"count\":3}}",
        "[[\"192.0.2.1\",5]]",
        "[\"0.0.0.0/0\"]",
        "[\"!192.0.2.1\"]",
    ] {
        let feed = read(text.as_bytes()).unwrap();
        let is_taken = feed.prefixes.iter().any(|(prefix, _)| !prefix.is_host());
        assert!(
            !is_taken && !feed.bad.is_empty() && (feed.prefixes.is_empty() || text.contains(",5")),
            "{text}: {feed:?}"
        );
    }
}

#[test]
fn what_is_no_list_of_addresses_is_refused_by_name() {
    let hosts: String = (0..207).map(|name| format!("0.0.0.0 ads{name}.example\n")).collect();
    let sinkhole: String = (0..207).map(|name| format!("192.0.2.{} ads{name}.example\n", name % 4)).collect();
    let wide: Vec<u8> = "192.0.2.1\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let marked = [&[0xff, 0xfe][..], &wide].concat();
    let big: Vec<u8> = "192.0.2.1\n".encode_utf16().flat_map(u16::to_be_bytes).collect();
    let tar = [b"list.txt".as_slice(), &[0; 249], b"ustar\0"].concat();
    for (text, why) in [
        (b"\n <!DOCTYPE html>\n192.0.2.1".as_slice(), "is a web page"),
        (b"<?xml version=\"1.0\"?>", "is a web page"),
        (b"<!-- x --><html>", "is a web page"),
        (b"Error 1015\n<html>\n192.0.2.1", "is a web page"),
        (hosts.as_bytes(), "a hosts file: 207 lines gave 1 different"),
        (sinkhole.as_bytes(), "a hosts file: 207 lines gave 4 different"),
        (b"127.0.0.1 localhost\n::1 ip6-localhost\n192.0.2.9 server.example\n", "a hosts file: 3 lines gave 3"),
        (b"127.0.0.1 localhost\n127.0.1.1 web\n192.0.2.5 db.example db\n192.0.2.6 x.example\n", "4 lines gave 4"),
        (b"a.example\nb.example # x\n||c.example^\n", "has 3 names and no address"),
        (&marked, "is text in UTF-16LE"),
        (&wide, "is text in UTF-16LE"),
        (&big, "is text in UTF-16BE"),
        (b"PK\x03\x04..", "is a ZIP archive"),
        (b"BZh91AY", "is packed by bzip2"),
        (&tar, "is a tar archive"),
        (b"create lines hash:ip family inet netmask 24\nadd lines 192.0.2.0\n", "is a set of ipset with a mask"),
        (b"[\"192.0.2.1\", \"192.0.", "is JSON, but cut or damaged: line 1"),
        (b"{\"cidr\":\"192.0.2.1\"}\n{\"cidr\":\"192", "is JSON, but cut or damaged: line 2"),
        (b"{\"cidr\":\"192.0.2.1\"}\n192.0.2.2\n", "is JSON, but cut or damaged: line 2"),
        (b"[\"192.0.2.1\",]", "is JSON, but cut or damaged: line 1"),
    ] {
        let shown = refused(text);
        assert!(shown.contains(why), "{shown}: expected {why}");
    }
    // Names of hosts are no hosts file.
    let reverse: String = (0..207).map(|host| format!("192.0.2.{host} host{host}.example\n")).collect();
    assert_eq!(read(reverse.as_bytes()).unwrap().prefixes.len(), 207);
    assert_eq!(all("127.0.0.0/8 loopback\n0.0.0.0/8 this"), "127.0.0.0/8 0.0.0.0/8");
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(text).unwrap();
    packed.finish().unwrap()
}

#[test]
fn gzip_is_unpacked_within_bounds() {
    let packed = gzip(b"192.0.2.1\n[2001:db8::1]\n");
    assert_eq!(all(&packed), "192.0.2.1 2001:db8::1");
    assert_eq!(all(gzip(b"[\"192.0.2.1\"]")), "192.0.2.1");
    // One part behind the other, as `cat a.gz b.gz` makes them.
    assert_eq!(all([packed.clone(), gzip(b"192.0.2.2")].concat()), "192.0.2.1 2001:db8::1 192.0.2.2");
    for end in [1, 4, 9, 12, 20, packed.len() - 9, packed.len() - 1] {
        let shown = read(&packed[..end]);
        assert!(end < 2 || matches!(shown, Err(FeedError::Gzip(_))), "{end}: {shown:?}");
    }
    let damaged = [&packed[..packed.len() - 8], &[0; 8]].concat();
    assert!(matches!(read(damaged.as_slice()), Err(FeedError::Gzip(_))));
    assert!(matches!(read([packed.as_slice(), b"junk"].concat().as_slice()), Err(FeedError::Gzip(_))));
    assert!(refused(gzip(&packed)).contains("packed by gzip twice"));
    // A megabyte becomes more than a gibibyte.
    let mut bomb = GzEncoder::new(Vec::new(), Compression::fast());
    io::copy(&mut io::repeat(b'#').take(MOST_BYTES + 1), &mut bomb).unwrap();
    assert!(refused(bomb.finish().unwrap()).contains("has more than 1 GiB"));
}

#[test]
fn any_bytes_are_read() {
    let feed = read(&b"\xff\xf0\n10.0.0.256\n::/129"[..]).unwrap();
    assert!(feed.prefixes.is_empty());
    assert_eq!(feed.bad.iter().map(|bad| bad.line).collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn long_lines_are_bad_and_the_next_line_is_read() {
    let long = "1".repeat(3 * MOST_OF_LINE);
    let (prefixes, bad) = lines(format!("{long}\n10.0.0.1\n{long}"));
    assert_eq!(prefixes, ["2: 10.0.0.1"]);
    assert_eq!(bad, ["1: is longer than 4096 bytes", "3: is longer than 4096 bytes"]);
    assert!(refused(format!("[\"{long}\"]")).contains("has more than 4096 bytes"));
}

#[test]
fn bad_lines_cannot_control_the_terminal() {
    let (_, bad) = lines("\x1b[2Jaway\n");
    assert!(bad[0].starts_with("1: \\u{1b}[2Jaway: expected an address"), "{bad:?}");
    let (_, bad) = lines("\"\x1b[2J\" 192.0.2.1 allow\x1b[2J");
    assert!(!bad[0].contains('\x1b'), "{bad:?}");
}

#[test]
fn endless_input_is_refused() {
    for (byte, why) in [(b'\n', "more than 10000000 lines"), (b'1', "more than 1 GiB")] {
        let endless = io::BufReader::new(io::repeat(byte));
        assert!(read(endless).unwrap_err().to_string().contains(why));
    }
    let ranges = "::1-ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe\n".repeat(MOST_PREFIXES / 200);
    assert!(
        read_within(ranges.as_bytes(), usize::MAX, Purpose::Delete)
            .unwrap_err()
            .to_string()
            .contains("4000000 prefixes")
    );
    let bad = b"1\n".repeat(MOST_BAD + 2);
    assert!(refused(bad).contains("more than 100000 lines"));
    let json = format!("[{}\"\"]", "\"192.0.2.300\",".repeat(MOST_BAD + 2));
    assert!(refused(json).contains("more than 100000 lines"));
    assert!(refused("[".repeat(1_000)).contains("recursion limit"));
}
