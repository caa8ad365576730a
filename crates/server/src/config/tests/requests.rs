//! The tables `[serve]` and `[[check]]`.

use std::path::Path;

use super::parse_all;
use ratelimit_limiter::{Algorithm, Limiter};

use crate::{
    config::{self as requests, Listen},
    usage::{SharedUsage, UsageFile, UsagePlace},
};

const RULE: &str = "[[check]]\nname = \"create\"\nlimits = \"3/m\"\n";

fn problem(text: &str) -> String {
    let problems = requests::parse(text).unwrap_err();
    assert_eq!(problems.len(), 1, "{problems:?}");
    // The daemon finds the same.
    assert_eq!(parse_all(&format!("{text}\n")).unwrap_err(), problems);
    problems[0].to_string()
}

#[test]
fn each_key_of_a_rule_is_read() {
    let text = "
        interfaces = []
        [serve]
        http = \"unix:/run/check.sock\"
        attributes = [\"tenant\"]
        [[check]]
        name = \"create-url\"
        match = { operation = [\"create\", \"renew\"], method = \"POST\" }
        key = [\"user\", \"tenant\", \"ip\"]
        limits = [\"100/h\", \"3/m\"]
        algorithm = \"sliding-log\"
        throttle = \"soft=40%\"
        shadow = true
        ipv6-prefix = 56
        clients = 1000
        [[check]]
        name = \"all\"
        limits = \"1.5k/s\"
        burst = 7
    ";
    let requests = requests::parse(text).unwrap();
    assert!(parse_all(text).is_ok());
    assert_eq!(requests.listens.http, Some(Listen::Unix(Path::new("/run/check.sock").to_owned())));
    let [create, all] = &requests.rules[..] else { panic!("{:?}", requests.rules) };
    assert_eq!((create.name(), create.clients(), create.is_shadow()), ("create-url", 1_024, true));
    assert_eq!(create.attributes(), ["user", "tenant", "ip"]);
    let limits: Vec<_> = create.limits().iter().map(|limit| (limit.rate().amount, limit.algorithm())).collect();
    assert_eq!(limits, [(100, Algorithm::SlidingLog), (3, Algorithm::SlidingLog)]);
    let limiter = Limiter::new([all.clone()], [1, 2]);
    let allowed = (0..100).filter(|_| limiter.check(&[("user", "1")], 1, 0).is_allowed).count();
    assert_eq!(allowed, 7);
}

#[test]
fn a_rule_of_three_lines_counts_all_requests() {
    let requests = requests::parse(RULE).unwrap();
    let limiter = Limiter::new(requests.rules, [1, 2]);
    let allowed = (0..100).filter(|_| limiter.check(&[("user", "1")], 1, 0).is_allowed).count();
    assert_eq!(allowed, 3);
}

#[test]
fn a_rule_may_say_how_long_it_remembers_a_client() {
    let rule = "[[check]]\nname = \"a\"\nlimits = \"3/h\"\nkey = \"user\"\nidentity-life = ";
    let limiter = Limiter::new(requests::parse(&format!("{rule}\"150s\"\n")).unwrap().rules, [1, 2]);
    let allowed = |second: u64| {
        let now = second * 1_000_000_000;
        (0..10).filter(|_| limiter.check(&[("user", "1")], 1, now).is_allowed).count()
    };
    assert_eq!([0, 149, 298, 448].map(allowed), [3, 0, 0, 3]);
    assert!(problem(&format!("{rule}\"soon\"\n")).starts_with("5:17: \"soon\": "));
}

#[test]
fn all_rules_of_a_file_together_have_bounded_memory() {
    for count in [1, 10, 1_000] {
        let rule = |number| format!("[[check]]\nname = \"rule-{number}\"\nlimits = \"3/m\"\nkey = \"user\"\n");
        let requests = requests::parse(&(0..count).map(rule).collect::<String>()).unwrap();
        let clients: usize = requests.rules.iter().map(ratelimit_limiter::Rule::clients).sum();
        // 64 bytes for each client: see the table in docs/requests.md.
        assert!((1 << 20..=4 << 20).contains(&clients), "{count}: {clients}");
    }
}

#[test]
fn problems_have_their_place_and_say_what_to_do() {
    for (text, expected) in [
        ("[[check]]\nlimits = \"3/m\"", "1:1: [[check]]: name is missing"),
        ("[[check]]\nname = \"a\"", "1:1: [[check]]: limits is missing"),
        (
            "[[check]]\nname = \"a b\"\nlimits = \"3/m\"",
            "2:8: \"a b\": expected 1 to 64 small letters, digits, `-`, `_` and `.`",
        ),
        ("[[check]]\nname = \"log\"\nlimits = \"3/m\"", "2:8: \"log\": this name is reserved: choose another name"),
        (
            "[[check]]\nname = \"a\"\nlimits = \"3\"",
            "3:10: \"3\": expected requests per s, m, h or d, such as 100/h, 3/m or 1.5k/s",
        ),
        (
            "[[check]]\nname = \"a\"\nlimits = \"3/m\"\nkey = [\"ip\", \"user\", \"ip\"]",
            "4:7: [\"ip\", \"user\", \"ip\"]: expected up to 32 attributes, each of them once",
        ),
        (
            "[[check]]\nname = \"a\"\nlimits = \"3/m\"\nkey = \"usr\"",
            "4:7: \"usr\": unknown attribute: did you mean user?",
        ),
        (
            "[[check]]\nname = \"a\"\nlimits = \"3/m\"\nmatch = { usr = \"1\" }",
            "4:11: usr: unknown attribute: did you mean user?",
        ),
        (
            "[[check]]\nname = \"a\"\nlimits = \"3/m\"\nkey = \"tenant\"",
            "4:7: \"tenant\": unknown attribute: expected ip, user, key, operation, method, host, path, service, domain, or one \
             that `attributes` in [serve] names",
        ),
        (
            "[[check]]\nname = \"a\"\nlimits = \"3/m\"\nalgorithm = \"fixed\"",
            "4:13: \"fixed\": expected one of token-bucket, leaky-bucket, queue, fixed-window, sliding-window, \
             sliding-counters, sliding-log",
        ),
        (
            "[[check]]\nname = \"a\"\nlimits = [\"3/m\", \"9/h\"]\nburst = 3",
            "4:9: 3: several limits have different bursts: remove this key, or write two rules",
        ),
        (
            "[[check]]\nname = \"a\"\nlimits = \"3/m\"\nalgorithm = \"sliding-log\"\nthrottle = \"soft=10%\"",
            "5:12: \"soft=10%\": 10 % of this limit is less than one request: give a larger share",
        ),
        (
            "[serve]\nhttp = \"0.0.0.0:80\"",
            "2:8: \"0.0.0.0:80\": other machines can reach this address: add tls-cert and tls-key, and a table [[token]]",
        ),
        (
            "[[check]]\nname = \"a\"\nlimits = \"3/m\"\nkey = \"user\"\nipv6-prefix = 48",
            "5:15: 48: it needs the attribute ip in `key`: add it there, or remove this key",
        ),
        (
            "[serve]\nhttp = \"127.0.0.1:80\"\ngrpc = \"127.0.0.1:80\"",
            "3:8: \"127.0.0.1:80\": `http` has this address: choose another one, or remove this key",
        ),
        (
            "[serve]\nhttp = \"unix:/a\"\ngrpc = \"unix:/a\"",
            "3:8: \"unix:/a\": `http` has this address: choose another one, or remove this key",
        ),
        ("[serve]\nhttp = \"unix:check.sock\"", "2:8: \"unix:check.sock\": expected an absolute path after unix:"),
        ("[serve]\nhtp = \"unix:/check.sock\"", "2:1: htp: unknown key: did you mean http?"),
        ("[[check]]\nname = true\nlimits = \"3/m\"", "2:8: true: expected text in quotes"),
        ("[[check]]\nname = [\"a\"]\nlimits = \"3/m\"", "2:8: [\"a\"]: expected text in quotes"),
        (&format!("{RULE}{RULE}"), "4:1: [[check]]: create is there twice: choose another name"),
    ] {
        assert_eq!(problem(text), expected);
    }
}

#[test]
fn a_number_out_of_range_leaves_no_rule_out_of_the_list() {
    let text = |number: &str| format!("{RULE}match = {{ user = {number} }}\n");
    assert!(requests::parse(&text("9223372036854775807")).unwrap().keys.contains_key("create"));
    for number in ["9223372036854775808", "18446744073709551616"] {
        let problems = requests::parse(&text(number)).unwrap_err();
        let expected = format!("4:18: {number}: this value is out of range: write it in quotes");
        assert_eq!((problems.len(), problems[0].to_string()), (1, expected));
    }
}

#[test]
fn very_many_attributes_are_not_all_named() {
    let attributes: Vec<String> = (0..500).map(|number| format!("attribute-{number}")).collect();
    let text = format!("[serve]\nattributes = {attributes:?}\n{RULE}key = \"zz\"\n");
    let problem = problem(&text);
    assert!(problem.ends_with("…, or one that `attributes` in [serve] names") && problem.len() < 500, "{problem}");
}

#[test]
fn usage_is_kept_only_where_the_file_names_a_file_for_it() {
    let usage = |keys: &str| requests::parse(&format!("[serve]\n{keys}\n{RULE}")).map(|requests| requests.usage);
    assert_eq!(usage(""), Ok(None));
    let path = Path::new("/var/lib/usage.db").to_owned();
    assert_eq!(
        usage("usage = \"/var/lib/usage.db\""),
        Ok(Some(UsagePlace::File(UsageFile { path: path.clone(), days: 30, rows: 1_000_000 })))
    );
    let keys = "usage = \"/var/lib/usage.db\"\nusage-days = 3650\nusage-rows = 1000";
    assert_eq!(usage(keys), Ok(Some(UsagePlace::File(UsageFile { path, days: 3_650, rows: 1_000 }))));
    let shared = SharedUsage { days: 7, rows: 1_000_000 };
    assert_eq!(usage("usage = \"fleet\"\nusage-days = 7"), Ok(Some(UsagePlace::Fleet(shared))));
    for (keys, expected) in [
        ("usage = \"usage.db\"", "expected the absolute path of a file, or fleet"),
        ("usage = \"/var/lib/\"", "expected the absolute path of a file, or fleet"),
        ("usage = \"/u\"\nusage-days = 0", "expected a number from 1 to 3650"),
        ("usage = \"/u\"\nusage-rows = 999", "expected a number from 1000 to 100000000"),
        ("usage-days = 7", "usage is missing"),
    ] {
        let problem = problem(&format!("[serve]\n{keys}\n{RULE}"));
        assert!(problem.ends_with(expected), "{problem}");
    }
}

#[test]
fn a_style_of_headers_is_a_word_in_quotes() {
    let expected = "2:11: false: expected one of ratelimit, x-ratelimit, none, in quotes";
    assert_eq!(problem("[serve]\nheaders = false\n"), expected);
}
