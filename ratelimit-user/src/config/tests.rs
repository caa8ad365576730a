use ratelimit_common::{
    identity::service::{Service, Transport},
    limits::policy::{ALLOW, DENY},
};

use super::*;

mod limits;
mod rules;
mod settings;

/// What is wrong with a text, a line each.
fn problems(text: &str) -> Vec<String> {
    parse(text).err().unwrap_or_default().iter().map(Problem::to_string).collect()
}

#[test]
fn a_file_asks_for_nothing_only_in_words() {
    for text in ["", "\n", "# interfaces = [\"eth0\"]\n\n  \t\r\n# later", "\u{feff}"] {
        let expected =
            "1:1: the file says nothing: write interfaces = [] if nothing is to be attached or limited".to_owned();
        assert_eq!(problems(text), [expected], "{text:?}");
    }
    let config = parse("interfaces = []").unwrap();
    assert!(config.interfaces.is_empty() && config.rules.is_empty() && config.costs.is_empty());
    assert_eq!(config.wanted, Wanted::default());
}

#[test]
fn the_sample_is_good_and_says_what_it_says() {
    let config = parse(include_str!("../../../dist/ratelimit.toml")).unwrap();
    let interface = Interface { name: "eth0".to_owned(), mode: Some(Mode::Auto), capacity: Some(500_000) };
    assert_eq!(config.interfaces, [interface]);
    assert_eq!(config.wanted.buckets, Some(131_072));
    assert_eq!(config.costs, [(Service::TcpSyn, 10)]);
    let rules: Vec<String> = config
        .rules
        .iter()
        .map(|rule| format!("{}: {}", rule.target, crate::limit::write::limit(&rule.terms)))
        .collect();
    assert_eq!(
        rules,
        [
            "default: 1000/s per source, burst 2000",
            "default udp/53: 50/s per source, burst 50",
            "192.0.2.10: allow per source",
            "203.0.113.0/24 tcp/443: 10/m,500/h per source, sliding-window, reject",
            "198.51.100.0/24: 1000/s, 10MB/s per source, burst 1000; together /24=20k/s, all=500k/s",
            "2001:db8:bad::/48: deny per source",
            "2001:db8::/32: 500/s per source, burst 100",
        ]
    );
    let kinds: Vec<u32> = config.rules.iter().map(|rule| rule.terms.policy.kind).collect();
    assert!(kinds.contains(&ALLOW) && kinds.contains(&DENY));
    let until = config.rules[5].until.unwrap().duration_since(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(until.as_secs(), 2_211_624_000);
}

#[test]
fn what_the_sample_says_of_numbers_is_good_as_well() {
    let sample = include_str!("../../../dist/ratelimit.toml");
    let (rest, metrics) = sample.split_once("# [metrics]").unwrap();
    assert_eq!(parse(rest).unwrap().metrics, Metrics::default());
    let metrics = format!("[metrics]{}", metrics.replace("\n# ", "\n"));
    // The file with the token is not there.
    let (found, without) = (problems(&metrics), metrics.replace("token-file", "# token-file"));
    assert!(
        matches!(&found[..], [problem] if problem.contains("\"/etc/ratelimit/token\": cannot be read")),
        "{found:?}"
    );
    let metrics = parse(&without).unwrap().metrics;
    assert_eq!((metrics.listen.unwrap().address.to_string().as_str(), metrics.sources), ("127.0.0.1:9464", 10));
}

#[test]
fn services_have_defaults_and_costs() {
    let config = parse("[service.\"udp/53\"]\npackets = \"50/s\"\ncost = 3\n").unwrap();
    let dns = Service::Port(Transport::Udp, 53);
    assert_eq!(config.costs, [(dns, 3)]);
    assert_eq!(config.rules[0].target, crate::dataplane::rules::target::Target::DEFAULT.of(dns));
}

/// Each text has one problem, and says so in this line.
#[test]
fn every_problem_is_named_with_its_place_and_what_was_expected() {
    for (text, expected) in [
        ("interfaces = 5.5", "1:14: 5.5: expected text in quotes, a number, or true or false"),
        ("interfaces = [\"a\", \"a\"]", "1:14: [\"a\", \"a\"]: a stands there twice"),
        ("interface = 3", "1:13: 3: expected a table"),
        ("interfacs = []", "1:1: interfacs: no such key here: interfaces is meant?"),
        ("[defualt]\npackets = \"1/s\"", "1:2: defualt: no such key here: default is meant?"),
        (
            "xyz = 1",
            "1:1: xyz: no such key here: expected interfaces, interface, settings, default, service, policy, rule, metrics",
        ),
        (
            "interfaces = [\"a\"]\n[interface.b]\nmode = \"auto\"",
            "2:12: b: not among the interfaces: add it there, or leave this table away",
        ),
        (
            "interfaces = [\"a\"]\n[interface.a]\nmode = \"fast\"",
            "3:8: \"fast\": expected one of auto, native, generic",
        ),
        ("[settings]\ncells = 3", "2:9: 3: expected a power of two up to 1048576"),
        ("[settings]\nmax-sources = 0", "2:15: 0: expected a number from 1 to 16777216"),
        ("[settings]\nmax-source = 7", "2:1: max-source: no such key here: max-sources is meant?"),
        (
            "[settings]\nunknown = true",
            "2:13: true: expected packets per s, m, h or d, such as 1000/s, 1.5k/s, 500/h or 3/m",
        ),
        (
            "[settings]\nfront = false\nunknown = \"1k/s\"",
            "1:1: [settings]: unknown needs the cells that front off leaves away: give one of the two",
        ),
        (
            "[default]\npackets = \"10\"",
            "2:11: \"10\": expected packets per s, m, h or d, such as 1000/s, 1.5k/s, 500/h or 3/m",
        ),
        (
            "[default]\npackets = 10",
            "2:11: 10: expected packets per s, m, h or d, such as 1000/s, 1.5k/s, 500/h or 3/m",
        ),
        (
            "[default]\nburst = 10",
            "1:1: [default]: a limit needs packets RATE, bytes RATE, parent SCOPE=RATE or several",
        ),
        ("[default]\npolicy = \"x\"", "2:10: \"x\": no such policy: expected allow, deny"),
        ("[default]\npolicy = \"deny\"", "2:10: \"deny\": a default is a limit: give 0.0.0.0/0 and ::/0 a rule"),
        (
            "[default]\npackets = \"1/s\"\nthrottle = \"elastic\"",
            "1:1: [default]: no interface has a capacity, which throttle elastic goes by: give one in [interface.NAME]",
        ),
        ("[default]\npackets = \"1/s\"\nban-after = 3", "1:1: [default]: ban is missing"),
        (
            "[service.udp53]\ncost = 3",
            "1:10: udp53: expected tcp, udp or sctp with or without a port (udp/53), tcp-syn, icmp, gre, esp, ah, ipip, or a protocol's number",
        ),
        ("[service.udp]\ncost = 51", "2:8: 51: expected a number from 1 to 50"),
        ("[service.udp]", "1:1: [service.udp]: says nothing: give a limit, or a cost"),
        (
            "[policy.allow]\npackets = \"1/s\"",
            "1:1: [policy.allow]: this name has a meaning of its own: choose another",
        ),
        ("[policy.p]\nbyte = \"1/s\"", "2:1: byte: no such key here: bytes is meant?"),
        ("[[rule]]\npolicy = \"deny\"", "1:1: [[rule]]: source is missing"),
        (
            "[[rule]]\nsource = \"10.0.0.300\"\npolicy = \"deny\"",
            "2:10: \"10.0.0.300\": expected an address or a prefix, such as 203.0.113.7, 203.0.113.0/24 or 2001:db8::/48, or the word default",
        ),
        (
            "[[rule]]\nsource = \"10.0.0.1\"",
            "1:1: [[rule]]: a limit needs packets RATE, bytes RATE, parent SCOPE=RATE or several",
        ),
        (
            "[[rule]]\nsource = \"10.0.0.1\"\npolicy = \"deny\"\npackets = \"1/s\"",
            "4:1: packets: no such key here: expected source, service, until, comment, policy",
        ),
        (
            "[[rule]]\nsource = \"10.0.0.1\"\npolicy = \"deny\"\nuntil = 2030-01-01",
            "4:9: 2030-01-01: expected a date, a time and its zone, such as 2030-01-31T12:00:00Z",
        ),
        (
            "[[rule]]\nsource = \"10.0.0.1\"\npolicy = \"deny\"\nuntil = \"2h\"",
            "4:9: \"2h\": expected a date and time, such as 2030-01-31T12:00:00Z",
        ),
        (
            "[[rule]]\nsource = \"10.0.0.1\"\npolicy = \"deny\"\n[[rule]]\nsource = \"10.0.0.1/32\"\npolicy = \"allow\"",
            "4:1: [[rule]]: 10.0.0.1 has a rule already, in line 1",
        ),
        (
            "[default]\npackets = \"1/s\"\n[[rule]]\nsource = \"default\"\npackets = \"2/s\"",
            "3:1: [[rule]]: default has a rule already, in line 1",
        ),
        ("[default]\npackets = \"1/s\"\npackets = \"2/s\"", "3:1: packets: duplicate key"),
    ] {
        assert_eq!(problems(text), [expected], "{text}");
    }
}

#[test]
fn what_no_instance_has_room_for_is_told_where_it_begins() {
    let services = |count: u16| {
        let rule = |port| format!("[[rule]]\nsource = \"10.0.0.1\"\nservice = \"udp/{port}\"\npolicy = \"deny\"\n");
        (1..=count).map(rule).collect::<String>()
    };
    assert!(parse(&services(255)).is_ok());
    let told = "1021:1: [[rule]]: one service more than the 255 that can be told apart: leave some away";
    assert_eq!(problems(&services(257)), [told]);

    let limits = |count: usize| {
        let rule = |n| format!("[[rule]]\nsource = \"10.0.{}.{}\"\npackets = \"{n}/s\"\n", n >> 8, n & 255);
        (1..=count).map(rule).collect::<String>()
    };
    // Four are there in every instance.
    assert!(parse(&limits(3_836)).is_ok());
    let told = "11509:1: [[rule]]: more different limits than there is room for: have rules share some";
    assert_eq!(problems(&limits(3_840)), [told]);
}

#[test]
fn all_problems_are_told_at_once_in_their_order() {
    let text = "interfaces = [\"a\"]\nshadow = true\n[default]\npackets = \"x\"\nbytes = \"y\"\n[[rule]]\n";
    let lines: Vec<usize> = parse(text).err().unwrap_or_default().iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [2, 4, 5, 6]);
}

#[test]
fn of_a_long_text_the_beginning_is_shown() {
    let (long, shown) = ("é".repeat(100), "é".repeat(59));
    let message = "expected packets per s, m, h or d, such as 1000/s, 1.5k/s, 500/h or 3/m";
    assert_eq!(problems(&format!("[default]\npackets = \"{long}\"")), [format!("2:11: \"{shown}…: {message}")]);
    let lines = "[default]\npackets = \"\"\"two\nlines\"\"\"";
    assert_eq!(problems(lines), [format!("2:11: \"\"\"two: {message}")]);
}
