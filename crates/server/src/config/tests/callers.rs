//! Callers on other machines, their tokens, and rules that callers write.

use std::path::Path;

use super::parse_all;

use crate::config::{
    self as requests,
    tokens::Scope,
    written::{self, Keys},
};

const ONE: &str = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed";
const TLS: &str = "tls-cert = \"/etc/cert.pem\"\ntls-key = \"/etc/key.pem\"\n";

fn token(name: &str, hash: &str, scope: &str) -> String {
    format!("[[token]]\nname = \"{name}\"\nsha256 = \"{hash}\"\nscope = {scope}\n")
}

fn problem(text: &str) -> String {
    let problems = requests::parse(text).unwrap_err();
    assert_eq!(problems.len(), 1, "{problems:?}");
    problems[0].to_string()
}

#[test]
fn an_address_beyond_this_host_needs_a_certificate_and_a_token() {
    let http = "[serve]\nhttp = \"192.0.2.1:80\"\n";
    let token = token("gateway", ONE, "\"check\"");
    let place = "2:8: \"192.0.2.1:80\": other machines can reach this address: add";
    assert_eq!(problem(http), format!("{place} tls-cert and tls-key, and a table [[token]]"));
    assert_eq!(problem(&format!("{http}{TLS}")), format!("{place} a table [[token]]"));
    assert_eq!(problem(&format!("{http}{token}")), format!("{place} tls-cert and tls-key"));
    let requests = requests::parse(&format!("{http}{TLS}{token}")).unwrap();
    assert!(requests.listens.http.unwrap().is_beyond_host());
    assert_eq!(requests.encryption.unwrap().key, Path::new("/etc/key.pem"));
    let metrics = "[serve]\nhttp = \"unix:/run/check.sock\"\nmetrics = ";
    let place = "3:11: \"192.0.2.1:80\": other machines can reach this address: add";
    let missing = format!("{place} tls-cert and tls-key, and a table [[token]]");
    assert_eq!(problem(&format!("{metrics}\"192.0.2.1:80\"\n")), missing);
    let taken = "3:11: \"unix:/run/check.sock\": callers ask at this address: choose another one, or remove this key";
    assert_eq!(problem(&format!("{metrics}\"unix:/run/check.sock\"\n")), taken);
    let requests = requests::parse(&format!("{metrics}\"192.0.2.1:80\"\n{TLS}{token}")).unwrap();
    assert!(requests.listens.metrics.unwrap().is_beyond_host());
    for local in ["127.0.0.1:80", "[::1]:80", "unix:/run/check.sock"] {
        let requests = requests::parse(&format!("[serve]\nhttp = \"{local}\"\n")).unwrap();
        assert!(!requests.listens.http.unwrap().is_beyond_host(), "{local}");
    }
}

#[test]
fn each_key_of_a_token_is_read() {
    let scopes = r#"["check", "metrics", "rules:read", "rules:team-a-*", "rules:all", "rules:*"]"#;
    let requests = requests::parse(&token("team-a", &ONE.to_uppercase(), scopes)).unwrap();
    let [token] = &requests.tokens[..] else { panic!("{:?}", requests.tokens) };
    assert_eq!((token.name.as_str(), token.hash[0], token.hash[31]), ("team-a", 0x76, 0xed));
    let texts: Vec<_> = token.scopes.iter().map(Scope::to_string).collect();
    assert_eq!(texts, ["check", "metrics", "rules:read", "rules:team-a-*", "rules:all", "rules:*"]);
}

#[test]
fn problems_of_tokens_say_what_to_do() {
    let scope = "expected check, metrics, packets:read, packets:write, rules:read, or rules: and the name of a rule, which \
         may end in *";
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let other = ONE.replace('7', "8");
    for (text, expected) in [
        ("[[token]]\nname = \"a\"\nscope = \"check\"".to_owned(), "1:1: [[token]]: sha256 is missing"),
        (token("a", ONE, "[]"), "1:1: [[token]]: scope is missing"),
        (token("a", ONE, "\"rules:\""), scope),
        (token("a", ONE, "\"rules:a*b\""), scope),
        (token("a", ONE, "\"chek\""), scope),
        (
            token("a", "secret", "\"check\""),
            "3:10: \"secret\": expected the SHA-256 of the token: 64 hexadecimal digits",
        ),
        (token("a", empty, "\"check\""), "this is the hash of an empty text: hash the token"),
        (
            token("a", ONE, "\"check\"") + &token("b", ONE, "\"check\""),
            "5:1: [[token]]: this is the token of a too: make another one",
        ),
        (
            token("a", ONE, "\"check\"") + &token("a", &other, "\"check\""),
            "5:1: [[token]]: a is there twice: choose another name",
        ),
        ("[serve]\ntls-cert = \"/a\"\n".to_owned(), "2:12: \"/a\": a certificate needs its key: add tls-key"),
        ("[serve]\nrules = \"a\"\n".to_owned(), "2:9: \"a\": expected an absolute path"),
    ] {
        let problem = problem(&text);
        assert!(problem.ends_with(expected), "{problem}");
    }
    let each = |number| token(&format!("t{number}"), &format!("{number:064x}"), "\"check\"");
    assert!(requests::parse(&(1..257).map(each).collect::<String>()).is_ok());
    assert!(problem(&(1..258).map(each).collect::<String>()).ends_with("at most 256 tokens are possible"));
}

#[test]
fn the_keys_of_each_rule_are_those_of_the_file() {
    let text = "[[check]]\nname = \"a\"\nlimits = [\"3/m\"]\nmatch = { operation = \"x\" }\nclients = 64\n";
    let requests = requests::parse(text).unwrap();
    let (keys, rule) = (&requests.keys["a"], &requests.rules[0]);
    assert_eq!(serde_json::to_string(keys).unwrap(), r#"{"clients":64,"limits":["3/m"],"match":{"operation":"x"}}"#);
    let again = written::read("a", keys, &requests.attributes).unwrap();
    assert_eq!(format!("{again:?}"), format!("{rule:?}"));
}

#[test]
fn a_rule_of_a_caller_is_checked_as_one_of_the_file_and_a_problem_names_its_key() {
    let attributes = ["user".to_owned()];
    let read = |json: &str| written::read("a", &serde_json::from_str::<Keys>(json).unwrap(), &attributes);
    assert!(read(r#"{"limits": "3/m", "key": ["user"], "match": {"user": ["a\nb", "\"\"\"'''"]}}"#).is_ok());
    for (json, expected) in [
        ("{}", "limits is missing"),
        (
            r#"{"limits": "often"}"#,
            "limits: \"often\": expected requests per s, m, h or d, such as 100/h, 3/m or 1.5k/s",
        ),
        (r#"{"limits": "3/m", "kee": "user"}"#, "kee: unknown key: did you mean key?"),
        (r#"{"limits": "3/m", "k\n= 1": 1}"#, "k\\n= 1: unknown key"),
        (r#"{"limits": "3/m", "": 1}"#, ": unknown key"),
        (r#"{"limits": "3/m", "name": "b"}"#, "name: remove this key: the path of the call has the name"),
        (r#"{"limits": "3/m", "key": "usr"}"#, "key: \"usr\": unknown attribute: did you mean user?"),
        (r#"{"limits": "3/m", "match": {"user": "a\nb"}, "shadow": 7}"#, "shadow: 7: expected true or false"),
        (r#"{"limits": "3/m", "burst": 1.5}"#, "burst: 1.5: expected a whole number"),
    ] {
        assert_eq!(read(json).unwrap_err(), [expected], "{json}");
    }
    let keys = serde_json::from_str(r#"{"limits": "3/m"}"#).unwrap();
    let of_name = |name| written::read(name, &keys, &attributes).unwrap_err();
    assert_eq!(of_name("A b"), ["name: \"A b\": expected 1 to 64 small letters, digits, `-`, `_` and `.`"]);
    for dots in [".", ".."] {
        assert_eq!(of_name(dots), [format!("name: \"{dots}\": this name is reserved: choose another name")]);
    }
    assert_eq!(of_name("log"), ["name: \"log\": this name is reserved: choose another name"]);
}

const SAMPLE: &str = include_str!("../../../../../dist/ratelimit.toml");

/// Returns a table of the sample file that is commented out, with those that stand below it.
fn sample(head: &str) -> String {
    let (_, rest) = SAMPLE.split_once(&format!("# {head}")).unwrap();
    let (tables, _) = rest.split_once("\n\n").unwrap();
    format!("{head}{}\n", tables.replace("\n# ", "\n"))
}

#[test]
fn a_rule_is_written_in_lines_that_can_be_read_and_control_no_terminal() {
    let json = r#"{"limits": ["3/m", 7, 1.5, true, {}], "k\n= 1": "a\u001b]0;\u0007\u009b2J\u202e", "match": {"it's \"a\"": ["\\ü\n"]}}"#;
    let keys: Keys = serde_json::from_str(json).unwrap();
    let text = written::write("a", &keys);
    assert_eq!(text.lines().count(), 4);
    assert!(text.chars().all(|char| char == '\n'
        || char == '\''
        || char == '"'
        || char.escape_debug().len() == 1
        || char == '\\'));
    let mut read: Keys = toml::from_str(&text).unwrap();
    assert_eq!(read.remove("name"), Some("a".into()));
    assert_eq!(read, keys);
}

#[test]
fn the_tables_for_requests_of_the_sample_file_are_good() {
    let requests = requests::parse(&sample("[serve]")).unwrap();
    assert_eq!((requests.tokens.len(), requests.rules.len()), (1, 2));
    assert!(requests.encryption.is_some() && requests.store.is_some() && requests.stops.is_some());
    let stops = parse_all(&format!("interfaces = []\n{}", sample("[stops]"))).unwrap().stops.unwrap();
    assert_eq!(requests.stops, Some(stops.socket));
    let view = parse_all(&format!("interfaces = []\n{}", sample("[view]"))).unwrap().view.unwrap();
    assert_eq!((requests.console.unwrap().packets, requests.users.len()), (Some(view.socket), 1));
}

#[test]
fn the_sample_file_has_each_key_about_requests() {
    for (head, tables) in [
        ("[serve]", "[serve]"),
        ("[[check]]", "[serve]"),
        ("[console]", "[serve]"),
        ("[stops]", "[stops]"),
        ("[view]", "[view]"),
    ] {
        // A key that does not exist gets a list of all.
        let problems = parse_all(&format!("interfaces = []\n{head}\nzzzzzz = 1\n")).unwrap_err();
        let expected = problems.iter().find_map(|problem| problem.message.strip_prefix("unknown key: expected "));
        let (sample, keys) = (sample(tables), expected.unwrap().split(", "));
        let missing: Vec<_> = keys.filter(|key| !sample.contains(&format!("\n{key} = "))).collect();
        assert_eq!(missing, [""; 0], "{head}");
    }
}
