//! What whole files mean: what excludes a part of them, and what a file says in two ways.

use super::{super::*, lines, refused};

/// Returns what is taken of a text, joined by spaces, and the number of lines that are named.
fn taken(text: &str) -> (String, usize) {
    let feed = read(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"));
    (feed.prefixes.iter().map(|(prefix, _)| prefix.to_string()).collect::<Vec<_>>().join(" "), feed.bad.len())
}

fn check(all: &[(&str, &str)]) {
    let wrong: Vec<_> = all.iter().filter(|(text, expected)| taken(text).0 != *expected).collect();
    let found: Vec<_> = wrong.iter().map(|(text, expected)| (text, expected, taken(text))).collect();
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn a_part_of_a_file_that_is_excluded_ends_with_its_own_end() {
    check(&[
        ("add whitelist 192.0.2.7", ""),
        ("create allow_v4 hash:ip\nadd allow_v4 192.0.2.7", ""),
        ("term allow-office {\n from {\n source-address {\n 192.0.2.0/24;\n }\n }\n}\n203.0.113.9", "203.0.113.9"),
        (
            "set whitelist {\n type ipv4_addr\n elements = { 192.0.2.2,\n 192.0.2.4,\n 192.0.2.5 }\n}\n192.0.2.9",
            "192.0.2.9",
        ),
        ("[whitelist]\n2001:db8::\n192.0.2.2\n[blocked]\n192.0.2.3", "192.0.2.3"),
        ("allow = [ \"192.0.2.1\",\n\"192.0.2.2\",\n\"192.0.2.3\" ]\n\"192.0.2.9\"", "192.0.2.9"),
        ("ignoreip = 127.0.0.1/8 ::1\n  192.0.2.1\n  192.0.2.2\n192.0.2.9", "192.0.2.9"),
        ("allow 192.0.2.1,\n192.0.2.2,\n192.0.2.3\n192.0.2.9", "192.0.2.9"),
        ("permit 192.0.2.1 \\\n192.0.2.2\n192.0.2.9", "192.0.2.9"),
        ("allow:\n  office:\n    - 192.0.2.1\n192.0.2.2\ndeny:\n192.0.2.9", "192.0.2.9"),
        ("whitelist {\n\"}\"\n192.0.2.1\n)\n192.0.2.2\n]\n192.0.2.3\n}\n192.0.2.9", "192.0.2.9"),
        ("192.0.2.1,whitelisted,\n192.0.2.2,scanner,", "192.0.2.2"),
        ("[whitelist]\nx {\n}\n192.0.2.1", ""),
    ]);
    assert_eq!(taken(&format!("allow {}\n{}\n192.0.2.1", "{".repeat(200), "}".repeat(200))).0, "");
    let two = "create whitelist hash:ip\nadd whitelist 192.0.2.7\ncreate blocked hash:ip\nadd blocked 203.0.113.9";
    for text in [two, "add one 192.0.2.7\nadd two 203.0.113.9", "create a hash:ip\nipset create b hash:ip\n"] {
        let error = read(text.as_bytes()).unwrap_err();
        assert!(error.to_string().contains("several sets") && error.advice().contains("one set"), "{error}");
    }
}

#[test]
fn comments_hide_no_line_of_a_feed() {
    check(&[
        ("192.0.2.1,GET /* HTTP\n192.0.2.2\n192.0.2.3,*/*", "192.0.2.2 192.0.2.3"),
        ("192.0.2.1 <!-- x\n192.0.2.2", "192.0.2.2"),
        ("/* a\n192.0.2.1 */ 192.0.2.2 /* b */", "192.0.2.2"),
        ("192.0.2.1 # x\r8.8.8.8\n", "192.0.2.1"),
        ("192.0.2.1\r\n192.0.2.2 # x\r8.8.8.8\r\n", "192.0.2.1 192.0.2.2"),
    ]);
    assert!(refused("192.0.2.1\n/* x\n192.0.2.2").contains("a comment without an end, which begins in line 2"));
    let late = format!("# {}\r8.8.8.8\r{}\n192.0.2.1\n", "x".repeat(300), "#".repeat(300));
    assert!(refused(late).contains("ends some of its lines with CR and others with LF"));
    // Each place in a line is looked at once.
    let begin = std::time::Instant::now();
    taken(&format!("{}\n", " -".repeat(2_000)).repeat(500));
    assert!(begin.elapsed().as_secs() < 20);
}

#[test]
fn entries_around_exclusions_are_left_out_alone() {
    check(&[
        (
            "[\"192.0.2.0/24\",\"198.51.100.1\",\"!192.0.2.7\",\"203.0.113.4-203.0.113.9\"]",
            "198.51.100.1 203.0.113.4/30 203.0.113.8/31",
        ),
        ("Deny from 10.0.0.0/8\nAllow from 10.1.0.0/255.255.0.0", ""),
        ("10.0.0.0/8\n!10.1.*.*", ""),
        ("192.0.2.64/26\n!192.0.2.0-192.0.2.255", ""),
        ("192.0.0.0/16\n!192.0.2.0-192.0.2.255", ""),
        ("192.0.2.7\nallow 192.0.2.7\nallow 192.0.2.0/28\n192.0.2.9\n192.0.2.99", "192.0.2.99"),
        ("192.0.2.0/24\npass in quick from 192.0.2.7", ""),
        ("192.0.2.0/24\n-A INPUT -s 192.0.2.7/32 -j office", ""),
        ("192.0.2.0/24\npermit ip 192.0.2.64 0.0.0.63 any\n0.0.0.0/8", "0.0.0.0/8"),
        ("192.0.2.0/24\n192.0.2.1-192.0.2.9\n192.0.3.9/24\n192.0.2.2 allowed", "192.0.3.0/24"),
        ("1.2.3.0/24\n192.0.2.18 allow host-1.2.3.4.example", "1.2.3.0/24"),
    ]);
    let feed = read(&b"192.0.2.9/24\n192.0.3.9/24\n!192.0.2.7\n"[..]).unwrap();
    assert_eq!((feed.cuts, feed.cut.len(), feed.cut[0].line, feed.usable), (1, 1, 2, 1));
    let many = format!("!192.0.2.7\n{}", "192.0.2.0/24\n".repeat(content::MOST_BAD + 9));
    assert!(refused(many).contains("more than 100000 lines"));
}

#[test]
fn verdicts_of_json_exclude() {
    for member in [
        "\"delisted\":true",
        "\"passlist\":true",
        "\"withdrawn\":\"2024\"",
        "\"bypass\":1",
        "\"benign\":true",
        "\"enabled\":0",
        "\"active\":\"false\"",
        "\"blocked\":\"no\"",
        "\"status\":\"false positive\"",
        "\"verdict\":\"not malicious\"",
        "\"name\":\"White list\"",
        "\"note\":\"no longer listed\"",
        "\"isWhitelisted\":\"True\"",
        "\"notListed\":true",
        "\"status\":\"benign\"",
    ] {
        for text in [format!("{{\"ip\":\"192.0.2.1\",{member}}}"), format!("[{{{member},\"ips\":[\"192.0.2.1\"]}}]")] {
            let (prefixes, bad) = taken(&text);
            assert!(prefixes.is_empty() && bad > 0, "{text}: {prefixes}");
        }
    }
    check(&[
        ("[[\"192.0.2.18\",\"allow\"],[\"192.0.2.19\",\"scanner\"]]", "192.0.2.19"),
        ("{\"ip\":\"192.0.2.1\",\"whitelisted\":\"False\",\"delisted\":false,\"untrusted\":true}", "192.0.2.1"),
        ("[{\"ip\":\"192.0.2.1\",\"name\":\"Permit Inc\",\"blocked\":\"yes\"}]", "192.0.2.1"),
    ]);
}

#[test]
fn verdicts_of_lines_exclude() {
    for rest in [
        ",false positive",
        ",not listed",
        ",no longer listed",
        ",do not block",
        ",white list",
        ",do-not-block",
        " RELAY",
        "/32 \"0\";",
        "/32 \"\";",
        "/32 0;",
        " not listed any more",
        ",\"false positive\"",
        ",\"Whitelisted by us\"",
        ",\"not malicious\"",
        " hosts.allow",
        "|de-listed",
        ",AllowList",
    ] {
        assert_eq!(taken(&format!("192.0.2.18{rest}")), (String::new(), 1), "{rest}");
    }
    check(&[
        ("192.0.2.5 allow.evil.example", "192.0.2.5"),
        ("1.0.0.0/24,13335,\"Permit Inc\"", "1.0.0.0/24"),
        ("1.0.0.0/24,13335,\"Permit, Inc\"", "1.0.0.0/24"),
        ("\"1.0.0.1, allow, x\"", ""),
        ("192.0.2.1,NO,North", "192.0.2.1"),
        ("127.0.0.1,localhost\n192.0.2.1", "127.0.0.1 192.0.2.1"),
        ("192.0.2.1/24 disallowed", "192.0.2.0/24"),
    ]);
    let late = format!("{}127.0.0.1 localhost", "192.0.2.1\n".repeat(10));
    assert_eq!(taken(&late).1, 0);
}

#[test]
fn a_network_in_two_parts_is_no_host() {
    for text in [
        "192.0.2.0 / 24",
        "192.0.2.0 mask 24",
        "203.0.113.0 prefix 24",
        "192.0.2.0,US,24",
        "192.0.2.0,30",
        "5.6.0.0,65536",
        "ripencc|DE|ipv4|5.6.0.0|65536|20100101|allocated",
        "apnic|CN|ipv4|5.6.0.0|768|20100101",
        "{\"network\":\"192.0.2.0\",\"cidr_length\":24}",
        "{\"start\":\"5.6.0.0\",\"count\":65536}",
        "{\"start\":\"5.6.0.0\",\"count\":\"65536\"}",
        "[[\"192.0.2.0\",24]]",
        "[[\"192.0.2.1\",\"192.0.2.9\"]]",
        "{\"range\":[\"192.0.2.9\",\"192.0.2.1\"]}",
    ] {
        let (prefixes, bad) = taken(text);
        assert!(prefixes.is_empty() && bad == 1, "{text}: {prefixes} {bad}");
    }
    check(&[
        ("192.0.2.9,443,8080", "192.0.2.9"),
        ("[\"192.0.2.0\",\"192.0.2.255\"]", "192.0.2.0 192.0.2.255"),
        ("[[\"192.0.2.0\",\"x\",\"192.0.2.255\"]]", "192.0.2.0 192.0.2.255"),
        ("{\"range\":[\"192.0.2.4\",\"192.0.2.9\"]}", "192.0.2.4/30 192.0.2.8/31"),
        ("Deny from 192.0.2.0 192.0.2.255", "192.0.2.0 192.0.2.255"),
        ("ALL: 192.0.2.0 192.0.2.255", "192.0.2.0 192.0.2.255"),
        ("deny from 192.0.2.0 255.255.255.0", ""),
    ]);
}

#[test]
fn feeds_that_exist_are_read() {
    check(&[
        ("001.002.004.000 - 001.002.004.255 , 000 , China", "1.2.4.0/24"),
        ("001.002.004.000-192.168.100.200 , 000 , x", ""),
        ("001.002.004.000-001.002.004.255", "1.2.4.0/24"),
        ("192.0.2.1,nginx,1.24.0", "192.0.2.1"),
        ("192.0.2.1 and 192.0.2", ""),
        ("ALL : 1.2.3.4", "1.2.3.4"),
        ("5.62.56.160,5.62.56.163,US", "5.62.56.160/30"),
        ("5.62.56.161,5.62.56.162,tcp", ""),
        (
            "{\"items\":[{\"network\":\"192.0.2.0\",\"mask_len\":24,\"cidr\":\"192.0.2.0/24\",\"mask\":\"255.255.255.0\"}]}",
            "192.0.2.0/24",
        ),
        (
            "[{\"network\":\"2001:db8::\",\"mask_len\":32,\"cidr\":\"2001:db8::/32\",\"mask\":\"ffff:ffff::\"}]",
            "2001:db8::/32",
        ),
        ("[{\"network\":\"192.0.2.0\",\"mask_len\":25,\"cidr\":\"192.0.2.0/24\"}]", ""),
    ]);
}

#[test]
fn problems_of_json_cannot_control_the_terminal() {
    let key = "\\u001b[2Jallow";
    let text = format!("{{\"{key}\":\"192.0.2.1\",\"x\":[\"192.0.2.2\",\"\\u001b[2J\"],\"{key}2\":[\"192.0.2.3\"]}}");
    for bad in
        [lines(&text).1, lines(format!("{{\"ip\":\"192.0.2.1\",\"{key}\":true}}")).1, lines("192.0.2.1 /2\x1b4").1]
    {
        assert!(!bad.is_empty() && !bad.iter().any(|bad| bad.contains('\x1b')), "{bad:?}");
    }
}

/// A feed of sources to refuse must not let them through.
#[test]
fn only_addresses_alone_are_allowed() {
    let read = |text: &str| read_within(text.as_bytes(), usize::MAX, Purpose::Allow).unwrap();
    let alone = "192.0.2.1\n192.0.2.0/30 # an office\n198.51.100.1-198.51.100.4\n203.0.113.0 255.255.255.0\n2001:db8::1, 2001:db8::2, 2001:db8::3\n";
    assert_eq!(read(alone).usable, 5);
    assert_eq!(read("[\"192.0.2.1\", \"192.0.2.0/30\"]").usable, 2);
    for text in [
        "deny 192.0.2.1;",
        "deny ip 192.0.2.0 0.0.0.255 any",
        "-A INPUT -s 192.0.2.1 -j DROP",
        "add blacklist 192.0.2.1",
        "ALL: 192.0.2.1",
        "192.0.2.1 REJECT",
        "192.0.2.1,blocked",
        "2026-11-29 192.0.2.1",
        "{\"ip\": \"192.0.2.1\", \"action\": \"deny\"}",
        "{\"deny\": [\"192.0.2.1\"]}",
    ] {
        let feed = read(text);
        assert_eq!(feed.prefixes, [], "{text}");
        assert!(feed.bad.iter().any(|bad| bad.why.contains("write the address alone")), "{text}: {:?}", feed.bad);
    }
}
