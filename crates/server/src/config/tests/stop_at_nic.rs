//! The key `stop-at-nic` of rules for requests.

use super::parse_all;

use crate::config as requests;

const STOPS: &str = "stops = \"/run/stops/socket\"\n";

/// Returns a file with this table `[serve]`, and a rule by these attributes that stops its clients.
fn file(serve: &str, key: &str) -> String {
    format!(
        "interfaces = []\n[serve]\n{serve}[[check]]\nname = \"a\"\nlimits = \"3/m\"\nkey = {key}\nstop-at-nic = true\n"
    )
}

fn problem(text: &str) -> String {
    let problems = requests::parse(text).unwrap_err();
    assert_eq!(problems.len(), 1, "{problems:?}");
    // The daemon finds the same.
    assert_eq!(parse_all(text).unwrap_err(), problems);
    problems[0].to_string()
}

#[test]
fn only_the_rule_with_the_key_stops_its_clients() {
    let text = file(STOPS, "[\"user\", \"path\"]") + "[[check]]\nname = \"b\"\nlimits = \"3/m\"\n";
    let requests = requests::parse(&text).unwrap();
    assert_eq!(requests.rules.iter().map(ratelimit_limiter::Rule::stops).collect::<Vec<_>>(), [true, false]);
    assert_eq!(requests.stops.unwrap().to_str(), Some("/run/stops/socket"));
}

#[test]
fn what_it_needs_is_told_once_with_its_place() {
    for (serve, key, expected) in [
        (
            "",
            "\"user\"",
            "7:15: true: add `stops` to the table [serve]: the socket of [stops] in the file of the daemon",
        ),
        ("stops = \"socket\"\n", "\"user\"", "3:9: \"socket\": expected the absolute path of a file"),
        (
            "stops = \"/s\"\nhttp = \"127.0.0.1:80\"\n",
            "\"user\"",
            "9:15: true: only callers of a Unix socket may name connections: add `http` or `grpc` as unix:/PATH",
        ),
        (
            STOPS,
            "[\"path\", \"operation\"]",
            "8:15: true: add an attribute to `key` that says who asks, such as user. `ip` does not: others would be",
        ),
        (STOPS, "\"ip\"", "8:15: true: add an attribute to `key` that says who asks"),
        (STOPS, "[\"path\", \"ip\"]", "8:15: true: add an attribute to `key` that says who asks"),
    ] {
        let problem = problem(&file(serve, key));
        assert!(problem.starts_with(expected), "{problem}");
    }
    let more = |name: &str| {
        format!("[[check]]\nname = \"{name}\"\nlimits = \"3/m\"\nkey = [\"user\", \"ip\"]\nstop-at-nic = true\n")
    };
    assert!(problem(&(file("", "\"user\"") + &more("b"))).starts_with("7:15: true: add `stops`"));
    let many: String = (0..64).map(|number| more(&format!("b{number}"))).collect();
    assert!(problem(&(file(STOPS, "\"user\"") + &many)).ends_with("at most 64 rules can have this key"));
}
