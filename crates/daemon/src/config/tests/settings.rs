//! Interfaces, settings, and values that are not tables.

use ratelimit_dataplane::program::loader::LEARNED;

use super::{RequestedSettings, parse, problems};

#[test]
fn every_problem_with_an_interface_or_a_setting_is_named() {
    for (text, expected) in [
        ("interfaces = [", "1:15: unclosed array, expected `]`"),
        // Errors that follow from the first one are left out.
        (
            "interfaces = [\"eth0\"\n[default]\npackets = \"5/s\"",
            "2:1: missing comma between array elements, expected `,`, or `]` is missing before this",
        ),
        ("packets =\n[default]\nallow = [\"192.0.2.1\"", "1:10: string values must be quoted, expected literal string"),
        ("[default", "1:9: unclosed table, expected `]`"),
        ("= 3", "1:1: unquoted keys cannot be empty, expected letters, numbers, `-`, `_`"),
        ("interfaces = [\"eth0\"]\ninterfaces = [\"eth1\"]", "2:1: interfaces: duplicate key"),
        ("interfaces = [1.5]", "1:15: 1.5: expected text in quotes, a number, or true or false"),
        ("interfaces = [[\"a\"]]", "1:15: [\"a\"]: expected text in quotes, a number, or true or false"),
        ("interfaces = 0x10", "1:14: 0x10: expected text in quotes, a number, or true or false"),
        ("interfaces = [\"a\"]\n[interface]\nb = 3", "3:5: 3: expected a table"),
        ("interfaces = [\"a\"]\n[interface.a]\nmod = \"auto\"", "3:1: mod: unknown key: did you mean mode?"),
        (
            "interfaces = [\"a\"]\n[interface.a]\nmode = [\"auto\", \"native\"]",
            "3:8: [\"auto\", \"native\"]: expected one value",
        ),
        (
            "interfaces = [\"a\"]\n[interface.a]\ncapacity = \"0/s\"",
            "3:12: \"0/s\": expected a rate between 1/s and 100M/s, or off",
        ),
        (
            "interfaces = [\"a\"]\n[interface.a]\ncapacity = \"1/d\"",
            "3:12: \"1/d\": expected a rate between 1/s and 100M/s, or off",
        ),
        (
            "interfaces = [\"a\"]\n[interface.a]\ncapacity = \"10MB/s\"",
            "3:12: \"10MB/s\": expected packets per s, m, h or d, such as 1000/s, 1.5k/s, 500/h or 3/m",
        ),
        (
            "interface = { a = { capacity = \"1/s\" } }",
            "1:15: a: not in the list of interfaces: add it there, or remove this table",
        ),
        ("settings = 3", "1:12: 3: expected a table"),
        ("[settings]\nipv6-prefix = 0", "2:15: 0: expected a number from 1 to 128"),
        ("[settings]\nipv6-prefix = \"wide\"", "2:15: \"wide\": expected a whole number"),
        ("[settings]\nmax-sources = 99999999", "2:15: 99999999: expected a number from 1 to 16777216"),
        ("[settings]\nfront = \"perhaps\"", "2:9: \"perhaps\": expected true or false"),
        ("[settings]\nfront = true\ncells = 1024", "1:1: [settings]: cells cannot be used with front"),
        ("[settings]\ncells = 2097152", "2:9: 2097152: expected a power of two up to 1048576"),
        ("[settings]\nsample = 3", "2:10: 3: expected true or false"),
        (
            "[settings]\nadmissions = false",
            "2:14: false: expected packets per s, m, h or d, such as 1000/s, 1.5k/s, 500/h or 3/m",
        ),
        ("[settings]\nadmissions = \"1/h\"", "2:14: \"1/h\": expected a rate between 1/s and 100M/s"),
        ("[settings]\nreplies = \"200M/s\"", "2:11: \"200M/s\": expected a rate between 1/s and 100M/s, or off"),
        ("[settings]\nshadow = \"maybe\"", "2:10: \"maybe\": expected true or false"),
        ("[settings]\nmax-sliding-logs = 1", "2:20: 1: expected a number from 2 to 16777216"),
        ("[settings]\nmalformed = \"keep\"", "2:13: \"keep\": expected one of drop, pass"),
        (
            "[settings]\nlog-level = \"info\"",
            "2:1: log-level: unknown key: expected ipv6-prefix, max-sources, front, cells, sample, admissions, unknown, prove, proofs, own, spare, replies, shadow, max-sliding-logs, malformed",
        ),
        (
            "[settings]\nhelp = true",
            "2:1: help: unknown key: expected ipv6-prefix, max-sources, front, cells, sample, admissions, unknown, prove, proofs, own, spare, replies, shadow, max-sliding-logs, malformed",
        ),
    ] {
        assert_eq!(problems(text), [expected], "{text}");
    }
}

#[test]
fn keys_of_earlier_versions_mean_the_same() {
    for (old, new) in [("strangers = \"9k/s\"", "unknown = \"9k/s\""), ("max-logs = 50", "max-sliding-logs = 50")] {
        let settings = |key: &str| parse(&format!("interfaces = []\n[settings]\n{key}")).unwrap().requested;
        assert_eq!(settings(old), settings(new));
        assert_ne!(settings(old), RequestedSettings::default());
    }
    let learned = parse("interfaces = []\n[settings]\nunknown = \"auto\"").unwrap().requested;
    assert_eq!(learned, RequestedSettings { unknown: Some(LEARNED), ..RequestedSettings::default() });
    for (text, expected) in [
        (
            "[settings]\nunknown = \"1/s\"\nstrangers = \"2/s\"",
            "3:13: \"2/s\": this key is an older name of unknown, which this table has too: remove one of the two",
        ),
        (
            "[settings]\nmax-logs = 5\nmax-sliding-logs = 6",
            "2:12: 5: this key is an older name of max-sliding-logs, which this table has too: remove one of the two",
        ),
        ("[settings]\nstrangers = \"1/d\"", "2:13: \"1/d\": expected a rate between 1/s and 100M/s, auto, or off"),
        ("[settings]\nstranger = \"1/s\"", "2:1: stranger: unknown key: expected NAMES"),
    ] {
        let names = "ipv6-prefix, max-sources, front, cells, sample, admissions, unknown, prove, proofs, own, spare, replies, shadow, max-sliding-logs, malformed";
        assert_eq!(problems(text), [expected.replace("NAMES", names)], "{text}");
    }
}
