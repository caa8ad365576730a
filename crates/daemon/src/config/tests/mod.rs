//! Tests of whole files: what they mean, and the problems that are reported.

use ratelimit_common::{
    identity::service::{Service, Transport},
    limits::policy::{ALLOW, DENY},
};

use super::*;

#[cfg(not(all(feature = "crowdsec", feature = "fleet", feature = "lists")))]
mod absent;
#[cfg(feature = "fleet")]
mod certificates;
#[cfg(feature = "crowdsec")]
mod crowdsec;
#[cfg(feature = "fleet")]
mod fleet;
mod limits;
#[cfg(feature = "lists")]
mod remote_lists;
mod rules;
mod settings;
mod stops;

/// Reads a file that says nothing about requests.
fn parse(text: &str) -> Result<Config, Vec<Problem>> {
    super::parse(text, |_| 0)
}

/// Returns the problems of a text, one per line.
fn problems(text: &str) -> Vec<String> {
    parse(text).err().unwrap_or_default().iter().map(Problem::to_string).collect()
}

#[test]
fn what_a_file_says_cannot_control_the_terminal() {
    let config = parse(r#"interfaces = ["\u001b[2J"]"#).unwrap();
    assert_eq!(config.interfaces[0].name, r"\u{1b}[2J");
    let text = r#"interfaces = ["\u001b[2J", "\u001b[2J"]"#;
    let expected = r#"1:14: ["\u001b[2J", "\u001b[2J"]: \u{1b}[2J is listed twice"#;
    assert_eq!(problems(text), [expected]);
    let rule = "[[rule]]\nsource = \"10.0.0.0/8\"\npolicy = ";
    let [problem] = &problems(&format!("{rule}\"\\u001b]0;x\"\n"))[..] else { panic!() };
    assert!(!problem.contains('\x1b') && problem.contains(r"\u001b]0;x"), "{problem}");
}

#[test]
fn an_empty_file_is_a_problem() {
    for text in ["", "\n", "# interfaces = [\"eth0\"]\n\n  \t\r\n# later", "\u{feff}"] {
        let expected = "1:1: the file is empty: write interfaces = [] to attach to nothing".to_owned();
        assert_eq!(problems(text), [expected], "{text:?}");
    }
    let config = parse("interfaces = []").unwrap();
    assert!(config.interfaces.is_empty() && config.rules.is_empty() && config.costs.is_empty());
    assert_eq!(config.requested, RequestedSettings::default());
}

#[test]
fn the_sample_file_is_good_and_means_what_its_comments_say() {
    let config = parse(include_str!("../../../../../dist/ratelimit.toml")).unwrap();
    let interface = Interface {
        name: "eth0".to_owned(),
        mode: Some(Mode::Auto),
        capacity: Some(500_000),
        shadow: Some(false),
        wait: true,
    };
    assert_eq!(config.interfaces, [interface]);
    assert_eq!((config.requested.buckets, config.requested.cells), (None, None));
    assert_eq!(config.costs, [(Service::TcpSyn, 10)]);
    let rules: Vec<String> = config
        .rules
        .iter()
        .map(|rule| format!("{}: {}", rule.target, crate::limit::write::limit(&rule.spec)))
        .collect();
    assert_eq!(
        rules,
        [
            "default: 1000/s per source, burst 2000",
            "default udp/53: 50/s per source, burst 50",
            "192.0.2.10: allow per source",
            "203.0.113.0/24 tcp/443: 10/m,500/h per source, sliding-window, reject",
            "198.51.100.0/24: 1000/s, 10MB/s per source, burst 1000; parents /24=20k/s, all=500k/s",
            "198.51.101.0/24: 1000/s, 10MB/s per source, burst 1000; parents /24=20k/s, all=500k/s",
            "2001:db8:bad::/48: deny per source",
            "2001:db8::/32: 500/s per source, burst 100",
        ]
    );
    let kinds: Vec<u32> = config.rules.iter().map(|rule| rule.spec.policy.kind).collect();
    assert!(kinds.contains(&ALLOW) && kinds.contains(&DENY));
    let until = config.rules[6].until.unwrap().duration_since(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(until.as_secs(), 2_211_624_000);
}

#[test]
fn the_metrics_table_of_the_sample_file_is_good() {
    let sample = include_str!("../../../../../dist/ratelimit.toml");
    let (rest, metrics) = sample.split_once("# [metrics]").unwrap();
    assert_eq!(parse(rest).unwrap().metrics, Metrics::default());
    let metrics = format!("[metrics]{}", metrics.replace("\n# ", "\n"));
    // The token file does not exist.
    let (found, without) = (problems(&metrics), metrics.replace("token-file", "# token-file"));
    assert!(
        matches!(&found[..], [problem] if problem.contains("\"/etc/ratelimit/token\": cannot be read")),
        "{found:?}"
    );
    let metrics = parse(&without).unwrap().metrics;
    assert_eq!((metrics.listen.unwrap().address.to_string().as_str(), metrics.sources), ("127.0.0.1:9464", 10));
}

#[test]
fn the_state_table_of_the_sample_file_is_good() {
    let sample = include_str!("../../../../../dist/ratelimit.toml");
    let (_, rest) = sample.split_once("# [state]").unwrap();
    let (state, _) = rest.split_once("\n\n").unwrap();
    let text = format!("[state]{}", state.replace("\n# ", "\n"));
    let state = parse(&text).unwrap().state.unwrap();
    let minute = std::time::Duration::from_secs(60);
    assert_eq!((state.path.to_str(), state.interval), (Some("/var/lib/ratelimit/state"), minute));
    assert_eq!(parse("[state]\nfile = \"/a\"").unwrap().state.unwrap().interval, minute);
    assert_eq!(parse("interfaces = []").unwrap().state, None);
}

#[test]
fn services_have_defaults_and_costs() {
    let config = parse("[service.\"udp/53\"]\npackets = \"50/s\"\ncost = 3\n").unwrap();
    let dns = Service::port(Transport::Udp, 53);
    assert_eq!(config.costs, [(dns, 3)]);
    assert_eq!(config.rules[0].target, ratelimit_dataplane::rules::target::Target::DEFAULT.of(dns));
}

/// Each text has one problem, with this message.
#[test]
fn every_problem_has_its_place_and_what_was_expected() {
    for (text, expected) in [
        ("interfaces = 5.5", "1:14: 5.5: expected text in quotes, a number, or true or false"),
        ("interfaces = [\"a\", \"a\"]", "1:14: [\"a\", \"a\"]: a is listed twice"),
        (
            "interfaces = [\"eth0\", \"averylonginterfacename\"]",
            "1:23: \"averylonginterfacename\": no interface has such a name: expected 1 to 15 bytes without `/`, `:` and spaces",
        ),
        (
            "interfaces = [\"eth0:1\"]",
            "1:15: \"eth0:1\": no interface has such a name: expected 1 to 15 bytes without `/`, `:` and spaces",
        ),
        (
            "interface = [\"eth0\"]",
            "1:13: [\"eth0\"]: expected tables [interface.NAME]: the list of names is `interfaces`",
        ),
        (
            "interface = [\"eth0\"]\n[interface.eth0]\nmode = \"auto\"",
            "2:2: interface: this name has a value already, so it cannot be a table too: rename or remove one of the two. \
             The list of names is `interfaces`",
        ),
        ("interfacs = []", "1:1: interfacs: unknown key: did you mean interfaces?"),
        ("[defualt]\npackets = \"1/s\"", "1:2: defualt: unknown key: did you mean default?"),
        (
            "xyz = 1",
            "1:1: xyz: unknown key: expected interfaces, interface, settings, default, allow, service, policy, list, rule, state, stops, crowdsec, metrics, fleet, \
             serve, check, token, console, user, view",
        ),
        (
            "interfaces = [\"a\"]\n[interface.b]\nmode = \"auto\"",
            "2:12: b: not in the list of interfaces: add it there, or remove this table",
        ),
        (
            "interfaces = [\"a\"]\n[interface.a]\nmode = \"fast\"",
            "3:8: \"fast\": expected one of auto, native, generic",
        ),
        ("[state]\ninterval = \"1m\"", "1:1: [state]: file is missing"),
        ("[state]\nfile = \"state\"", "2:8: \"state\": expected the absolute path of a file"),
        ("[state]\nfile = \"/var/lib/\"", "2:8: \"/var/lib/\": expected the absolute path of a file"),
        ("[state]\nfile = \"/var/lib/.\"", "2:8: \"/var/lib/.\": expected the absolute path of a file"),
        ("[state]\nfile = \"/a\"\ninterval = \"2h\"", "3:12: \"2h\": expected a time from 1s to 1h"),
        (
            "[state]\nfile = \"/a\"\ninterval = \"soon\"",
            "3:12: \"soon\": expected a number and s, m, h or d, such as 90s, 10m, 2h or 7d; without a letter, seconds",
        ),
        ("[settings]\ncells = 3", "2:9: 3: expected a power of two up to 1048576"),
        ("[settings]\nmax-sources = 0", "2:15: 0: expected a number from 1 to 16777216"),
        ("[settings]\nmax-source = 7", "2:1: max-source: unknown key: did you mean max-sources?"),
        ("[settings]\nunknown = true", "2:11: true: expected a rate between 1/s and 100M/s, auto, or off"),
        (
            "[settings]\nfront = false\nunknown = \"1k/s\"",
            "1:1: [settings]: unknown needs cells, which front off removes: omit one of the two options",
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
            "1:1: [default]: a limit needs packets RATE, bytes RATE or parent SCOPE=RATE, or `policy`",
        ),
        ("[default]\npolicy = \"x\"", "2:10: \"x\": no such policy: expected allow, deny"),
        (
            "[default]\npolicy = \"deny\"",
            "2:10: \"deny\": a default must be a limit: add rules for 0.0.0.0/0 and ::/0 instead",
        ),
        (
            "[default]\npackets = \"1/s\"\nthrottle = \"elastic\"",
            "1:1: [default]: throttle elastic needs the capacity of an interface: add capacity to [interface.NAME]",
        ),
        (
            "[default]\npackets = \"1/s\"\nban-after = 3",
            "1:1: [default]: ban-after and ban-cap need ban: also give ban DURATION",
        ),
        (
            "[service.udp53]\ncost = 3",
            "1:10: udp53: expected tcp, udp or sctp with or without a port (udp/53), tcp-syn, icmp, gre, esp, ah, ipip, or a protocol number",
        ),
        ("[service.udp]\ncost = 51", "2:8: 51: expected a number from 1 to 50"),
        ("[service.udp]", "1:1: [service.udp]: the table is empty: add a limit or a cost"),
        ("[policy.allow]\npackets = \"1/s\"", "1:1: [policy.allow]: this name is reserved: choose another name"),
        ("[policy.p]\nbyte = \"1/s\"", "2:1: byte: unknown key: did you mean bytes?"),
        ("[[rule]]\npolicy = \"deny\"", "1:1: [[rule]]: source is missing"),
        (
            "[[rule]]\nsource = \"10.0.0.300\"\npolicy = \"deny\"",
            "2:10: \"10.0.0.300\": expected an address or a prefix, such as 203.0.113.7, 203.0.113.0/24 or 2001:db8::/48, or the word default",
        ),
        (
            "[[rule]]\nsource = \"10.0.0.1\"",
            "1:1: [[rule]]: a limit needs packets RATE, bytes RATE or parent SCOPE=RATE, or `policy`",
        ),
        (
            "[[rule]]\nsource = \"10.0.0.1\"\npolicy = \"deny\"\npackets = \"1/s\"",
            "4:1: packets: there is `policy` too: give either `policy` or the keys of a limit",
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
            "4:1: [[rule]]: 10.0.0.1 already has a rule, in line 1",
        ),
        (
            "[default]\npackets = \"1/s\"\n[[rule]]\nsource = \"default\"\npackets = \"2/s\"",
            "3:1: [[rule]]: default already has a rule, in line 1",
        ),
        ("[default]\npackets = \"1/s\"\npackets = \"2/s\"", "3:1: packets: duplicate key"),
    ] {
        assert_eq!(problems(text), [expected], "{text}");
    }
}

#[test]
fn the_first_rule_that_fits_no_instance_is_a_problem() {
    let services = |count: u16| {
        let rule = |port| format!("[[rule]]\nsource = \"10.0.0.1\"\nservice = \"udp/{port}\"\npolicy = \"deny\"\n");
        (1..=count).map(rule).collect::<String>()
    };
    assert!(parse(&services(255)).is_ok());
    let problem = "1021:1: [[rule]]: more than 255 services, the largest number: remove some";
    assert_eq!(problems(&services(257)), [problem]);

    let limits = |count: usize| {
        let rule = |n| format!("[[rule]]\nsource = \"10.0.{}.{}\"\npackets = \"{n}/s\"\n", n >> 8, n & 255);
        (1..=count).map(rule).collect::<String>()
    };
    // Every instance has five policies of its own.
    assert!(parse(&limits(3_835)).is_ok());
    let problem =
        "11506:1: [[rule]]: more different limits than the largest number: use the same limit for several rules";
    assert_eq!(problems(&limits(3_840)), [problem]);
}

#[test]
fn all_problems_are_reported_in_their_order() {
    let text = "interfaces = [\"a\"]\nshadow = true\n[default]\npackets = \"x\"\nbytes = \"y\"\n[[rule]]\n";
    let lines: Vec<usize> = parse(text).err().unwrap_or_default().iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [2, 4, 5, 6]);
}

#[test]
fn the_beginning_of_a_long_text_is_shown() {
    let (long, shown) = ("é".repeat(100), "é".repeat(59));
    let message = "expected packets per s, m, h or d, such as 1000/s, 1.5k/s, 500/h or 3/m";
    assert_eq!(problems(&format!("[default]\npackets = \"{long}\"")), [format!("2:11: \"{shown}…: {message}")]);
    let lines = "[default]\npackets = \"\"\"two\nlines\"\"\"";
    assert_eq!(problems(lines), [format!("2:11: \"\"\"two: {message}")]);
}
