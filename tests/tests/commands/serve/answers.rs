//! What `ratelimit serve` answers by HTTP over a Unix socket.

use std::{io::Write as _, os::unix::net::UnixStream};

use ratelimit_tests::Sandbox;
use rustix::process::Signal;
use serde_json::json;

use super::{RULES, Server, answer, of_user, text};
use crate::metrics::series;

#[test]
fn a_client_over_its_limit_gets_429_with_the_time_to_wait_and_others_do_not() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, RULES);
    for remaining in [2, 1, 0] {
        let answer = server.check(&of_user("17"));
        assert_eq!(
            (answer.status, &answer.body["allowed"], &answer.body["remaining"]),
            (200, &true.into(), &remaining.into())
        );
        assert_eq!(answer.header("ratelimit-policy"), Some("\"create-url\";q=3;w=60"));
        assert_eq!(answer.header("retry-after"), None);
    }
    let refused = server.check(&of_user("17"));
    assert_eq!(
        (refused.status, &refused.body["rule"], &refused.body["limit"]),
        (429, &"create-url".into(), &"3/m".into())
    );
    let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((50..=66).contains(&seconds), "{seconds}");
    let milliseconds = refused.body["retry_after_ms"].as_u64().unwrap();
    assert_eq!(milliseconds.div_ceil(1_000), seconds);
    assert!(refused.header("ratelimit").unwrap().starts_with("\"create-url\";r=0;t="));
    assert_eq!(server.check(&of_user("18")).status, 200);
    // No rule counts it.
    let other = server.check(&json!({"attributes": {"operation": "deleteURL", "user": "17"}}));
    assert_eq!((other.status, other.body), (200, json!({"allowed": true})));
    let page = server.call("GET /metrics HTTP/1.1", "").body;
    for line in [
        "ratelimit_check_decisions_total{decision=\"allowed\"} 4",
        "ratelimit_check_decisions_total{decision=\"uncounted\"} 1",
        "ratelimit_check_decisions_total{decision=\"refused\"} 1",
        "ratelimit_check_rule_requests_total{rule=\"create-url\",decision=\"admitted\"} 4",
        "ratelimit_check_rule_requests_total{rule=\"create-url\",decision=\"refused\"} 1",
        "ratelimit_check_rule_requests_total{rule=\"create-url\",decision=\"refused_in_shadow\"} 0",
        "ratelimit_check_refusals_total{rule=\"create-url\",limit=\"3/m\",reason=\"limit\"} 1",
        "ratelimit_check_refusals_total{rule=\"create-url\",limit=\"100/h\",reason=\"cost\"} 0",
        "ratelimit_check_clients{rule=\"create-url\"} 2",
    ] {
        assert!(page.as_str().unwrap().lines().any(|found| found == line), "{page}");
    }
    server.end();
}

#[test]
fn a_reload_changes_the_headers_that_tell_what_is_left() {
    let sandbox = Sandbox::new();
    let mut server = Server::start(&sandbox, RULES);
    let names = |server: &Server| {
        let answer = server.check(&of_user("17"));
        let names = answer.head.lines().filter_map(|line| Some(line.split_once(": ")?.0.to_ascii_lowercase()));
        let mut names: Vec<_> = names.filter(|name| name.contains("ratelimit") || name == "retry-after").collect();
        names.sort();
        names.join(" ")
    };
    assert_eq!(names(&server), "ratelimit ratelimit-load ratelimit-policy");
    for (style, expected) in [
        ("x-ratelimit", "ratelimit-load x-ratelimit-limit x-ratelimit-remaining x-ratelimit-reset"),
        ("none", "ratelimit-load"),
        ("none", "ratelimit-load retry-after"),
        ("ratelimit", "ratelimit ratelimit-load ratelimit-policy retry-after"),
    ] {
        server.folder.write(&text(&server.socket, &format!("headers = \"{style}\"\n{RULES}")));
        server.daemon.process.signal(Signal::HUP);
        assert_eq!(server.daemon.line(), "ratelimit: 1 rule in force");
        assert_eq!(names(&server), expected, "{style}");
    }
    server.folder.write(&text(&server.socket, &format!("headers = \"all\"\n{RULES}")));
    server.daemon.process.signal(Signal::HUP);
    let line = server.daemon.line();
    assert!(line.ends_with("\"all\": expected one of ratelimit, x-ratelimit, none"), "{line}");
    server.end();
}

#[test]
fn all_requests_of_a_batch_are_charged_or_none() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, RULES);
    let batch = |count: usize| {
        let body = json!({"requests": vec![of_user("17"); count]}).to_string();
        server.call("POST /v1/check/batch HTTP/1.1", &body)
    };
    for _ in 0..3 {
        let refused = batch(4);
        assert_eq!((refused.status, &refused.body["allowed"]), (429, &false.into()));
    }
    assert_eq!(batch(3).status, 200);
    assert_eq!(batch(1).status, 429);
    assert_eq!(batch(0).body["error"], "requests: expected 1 to 100 of them");
    server.end();
}

#[test]
fn proxies_get_the_statuses_that_they_understand() {
    let sandbox = Sandbox::new();
    let rule = "[[check]]\nname = \"ip\"\nkey = \"ip\"\nlimits = \"1/m\"\n";
    let server = Server::start(&sandbox, rule);
    let nginx = || server.call("GET /v1/nginx HTTP/1.1\r\nX-Attribute-Ip: 192.0.2.1", "");
    assert_eq!(nginx().status, 204);
    let refused = nginx();
    assert_eq!((refused.status, refused.header("x-ratelimit-status")), (403, Some("429")));
    assert!(refused.header("retry-after").is_some());
    // Traefik appends the address that it has seen. What comes before is the caller's.
    let traefik = |forged: &str| {
        let head = format!("GET /v1/traefik HTTP/1.1\r\nX-Forwarded-For: {forged}, 192.0.2.2");
        server.call(&head, "").status
    };
    assert_eq!((traefik("192.0.2.7"), traefik("192.0.2.8")), (200, 429));
    // Rules find a host and a path however a client writes what does not matter.
    let rule = "[[check]]\nname = \"login\"\nmatch = { host = \"api.test\", path = \"/login\" }\nlimits = \"1/m\"\n";
    let of_path = Server::start(&sandbox, rule);
    let login = |host: &str, uri: &str| {
        let head = format!("GET /v1/traefik HTTP/1.1\r\nX-Forwarded-Host: {host}\r\nX-Forwarded-Uri: {uri}");
        of_path.call(&head, "").status
    };
    assert_eq!((login("api.test", "/login"), login("API.test.:443", "/login?\u{ff}")), (200, 429));
    assert_eq!(login("api.test", "/logout"), 200);
    of_path.end();
    server.end();
}

#[test]
fn calls_that_make_no_sense_get_one_clear_line() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, RULES);
    let many: serde_json::Map<_, _> = (0..33).map(|number| (number.to_string(), "".into())).collect();
    let many = json!({ "attributes": many }).to_string();
    let huge = "x".repeat(70_000);
    for (head, body, status, expected) in [
        ("POST /v1/check", "", 400, "the body must be a JSON object such as {\"attributes\": {\"user\": \"17\"}}"),
        (
            "POST /v1/check",
            "operation=createURL",
            400,
            "the body must be a JSON object such as {\"attributes\": {\"user\": \"17\"}}",
        ),
        (
            "POST /v1/check/batch",
            "nonsense",
            400,
            "the body must be a JSON object such as {\"requests\": [{\"attributes\": {\"user\": \"17\"}}]}",
        ),
        ("POST /v1/check", " {\"attributes\": {", 400, "line 1, column 17: attributes: the text ends too early"),
        ("POST /v1/check", "{}", 400, "line 1, column 2: attributes is missing"),
        (
            "POST /v1/check",
            "{\"attributes\": {\"user\": 17}}",
            400,
            "line 1, column 26: attributes: user: expected text in quotes, not 17",
        ),
        (
            "POST /v1/check",
            "{\"attributes\": {}, \"cost\": -1}",
            400,
            "line 1, column 29: cost: expected a whole number from 0 to 4294967295, not -1",
        ),
        (
            "POST /v1/check",
            "{\"attributes\": {}, \"price\": 1}",
            400,
            "line 1, column 26: price: unknown key: expected one of attributes, cost, connection",
        ),
        (
            "POST /v1/check",
            "{\"attributes\": {}, \"connection\": []}",
            400,
            "line 1, column 33: connection: expected an object, not a list",
        ),
        (
            "POST /v1/check",
            "{\"attributes\": {}, \"connection\": {\"local\": \"192.0.2.1\"}}",
            400,
            "line 1, column 55: connection: 192.0.2.1: expected ADDRESS:PORT, such as 192.0.2.1:443 or [2001:db8::1]:443",
        ),
        (
            "POST /v1/check",
            "[{\"user\": \"17\"}, 1]",
            400,
            "line 1, column 0: expected an object with attributes, not a list",
        ),
        (
            "POST /v1/check",
            "{\"attributes\": {\"user\": \"17\", \"user\": \"18\"}}",
            400,
            "line 1, column 36: attributes: user is there twice: remove one",
        ),
        (
            "POST /v1/check",
            "{\"attributes\": {}, \"cost\": 1, \"cost\": 2}",
            400,
            "line 1, column 36: cost is there twice: remove one",
        ),
        (
            "POST /v1/check/batch",
            "{\"requests\": [{\"attributes\": {}}, {\"attributes\": {\"user\": null}}]}",
            400,
            "line 1, column 62: request 2: attributes: user: expected text in quotes, not null",
        ),
        ("POST /v1/check", &many, 400, "attributes: at most 32 are possible"),
        ("GET /v1/nginx", "", 204, ""),
        ("GET /v2/check", "", 404, "not found: POST /v1/check asks about a request"),
    ] {
        let answer = server.call(&format!("{head} HTTP/1.1"), body);
        assert_eq!(answer.status, status, "{body}");
        assert_eq!(answer.body["error"].as_str().unwrap_or_default(), expected, "{body}");
    }
    let answer = server.call("POST /v1/check HTTP/1.1", &huge);
    assert_eq!((answer.status, &answer.body["error"]), (413, &"a body has at most 65536 bytes".into()));
    for (call, allow, expected) in [
        ("GET /v1/check", "POST", "POST"),
        ("PUT /v1/check/batch", "POST", "POST"),
        ("POST /metrics", "GET,HEAD", "GET"),
        ("POST /health", "GET,HEAD", "GET"),
        ("POST /v1/rules", "GET,HEAD", "GET"),
        ("POST /v1/rules/log", "GET,HEAD", "GET"),
        ("POST /v1/rules/a", "GET,HEAD,PUT,DELETE", "GET, PUT or DELETE"),
    ] {
        let answer = server.call(&format!("{call} HTTP/1.1"), "");
        assert_eq!((answer.status, answer.header("allow")), (405, Some(allow)), "{call}");
        assert_eq!(answer.body["error"].as_str().unwrap(), format!("expected {expected}"));
    }
    server.end();
}

/// Returns how many attributes clients have made unreadable.
fn unreadable(server: &Server) -> f64 {
    let metrics = server.call("GET /metrics HTTP/1.1", "").body;
    series(metrics.as_str().unwrap())["ratelimit_check_unreadable_attributes_total"]
}

#[test]
fn a_byte_of_a_client_evades_no_rule_that_does_not_need_it() {
    let sandbox = Sandbox::new();
    let rules = "[[check]]\nname = \"ip\"\nkey = \"ip\"\nlimits = \"1/h\"\n[[check]]\nname = \"all\"\nmatch = { method = \
                 \"PUT\" }\nlimits = \"1/h\"\n[[check]]\nname = \"key\"\nmatch = { method = \"GET\" }\nkey = \"key\"\n\
                 limits = \"1/h\"\n[[check]]\nname = \"path\"\nmatch = { path = [\"/login\", \"/caf%E9\"] }\n\
                 key = \"path\"\nlimits = \"1/h\"\n";
    let server = Server::start(&sandbox, rules);
    let nginx = |headers: &[u8]| {
        let mut stream = UnixStream::connect(&server.socket).unwrap();
        let call = [b"GET /v1/nginx HTTP/1.1\r\nhost: x\r\nconnection: close\r\n", headers, b"\r\n\r\n"].concat();
        stream.write_all(&call).unwrap();
        answer(stream).status
    };
    assert_eq!(nginx(b"X-Attribute-Ip: 192.0.2.1"), 204);
    for (value, count) in [(&b"k\x01"[..], 1.0), (b"\x00", 1.0), (b"\x7f", 1.0), (b"\x1b[31m", 1.0), (b"k\xe9", 0.0)] {
        let before = unreadable(&server);
        let header = [b"X-Attribute-Ip: 192.0.2.1\r\nX-Attribute-Key: ", value].concat();
        assert_eq!(nginx(&header), 403, "{value:?}");
        assert_eq!(unreadable(&server) - before, count, "{value:?}");
    }
    // An address is read however a proxy writes it. What is none is missing.
    for ip in ["192.0.2.1:80", "[192.0.2.1]:80", "[192.0.2.1]", "::ffff:192.0.2.1", "[::ffff:192.0.2.1]:443"] {
        assert_eq!(nginx(format!("X-Attribute-Ip: {ip}").as_bytes()), 403, "{ip}");
    }
    let put = |ip: &str| nginx(format!("X-Attribute-Ip: {ip}\r\nX-Attribute-Method: PUT").as_bytes());
    assert_eq!([put("unix:"), put("k\u{1}"), put("999.1.1.1"), put("")], [204, 403, 403, 403]);
    // A cost that is no number is missing, and one that is too large is the largest.
    let cost = |text: &str, ip: &str| nginx(format!("X-Attribute-Ip: {ip}\r\nX-Cost: {text}").as_bytes());
    let before = unreadable(&server);
    assert_eq!([cost("many", "192.0.2.3"), cost("-1", "192.0.2.3"), cost("99999999999", "192.0.2.4")], [204, 403, 403]);
    assert_eq!(unreadable(&server) - before, 2.0);
    // A path is read whatever a client puts behind it.
    let path = |uri: &[u8]| nginx(&[b"X-Attribute-Path: ", uri].concat());
    let before = unreadable(&server);
    assert_eq!([path(b"/login"), path(b"/login?x=\xff"), path(b"/login;\x01"), path(b"/other")], [204, 403, 403, 204]);
    let mut stream = UnixStream::connect(&server.socket).unwrap();
    let head = "GET /v1/traefik HTTP/1.1\r\nhost: x\r\nconnection: close\r\nX-Forwarded-Uri: /login?";
    stream.write_all(&[head.as_bytes(), b"\xff\r\n\r\n"].concat()).unwrap();
    assert_eq!(answer(stream).status, 429);
    // Bytes that are no text are what their escapes are.
    assert_eq!([path(b"/caf\xe9"), path(b"/caf%E9"), path(b"/caf%e8")], [204, 403, 204]);
    assert_eq!(unreadable(&server), before);
    // The same holds for JSON, where a text can have half of a pair of surrogates.
    let body =
        |ip: &str| format!("{{\"attributes\": {{\"ip\": \"{ip}\", \"user\": \"\\ud800\", \"method\": \"PUT\"}}}}");
    for ip in ["192.0.2.1:80", "x", "\\udc00"] {
        assert_eq!(server.call("POST /v1/check HTTP/1.1", &body(ip)).status, 429, "{ip}");
        let batch = format!("{{\"requests\": [{}]}}", body(ip));
        assert_eq!(server.call("POST /v1/check/batch HTTP/1.1", &batch).status, 429, "{ip}");
    }
    server.end();
}

#[test]
fn traefik_gets_a_decision_whatever_stands_in_x_forwarded_for() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, "[[check]]\nname = \"ip\"\nkey = \"ip\"\nlimits = \"1/h\"\n");
    let of = |lines: &[&str]| {
        let lines: String = lines.iter().map(|line| format!("\r\nX-Forwarded-For: {line}")).collect();
        server.call(&format!("GET /v1/traefik HTTP/1.1{lines}"), "").status
    };
    assert_eq!(of(&["192.0.2.1"]), 200);
    for lines in [
        &["192.0.2.1:80"][..],
        &["[::ffff:192.0.2.1]:80"],
        &["192.0.2.7, 192.0.2.1"],
        // Of several lines, the last is the one that Traefik has written.
        &["192.0.2.8", "192.0.2.1"],
        &["192.0.2.9, ", "", " 192.0.2.1 , ,"],
    ] {
        assert_eq!(of(lines), 429, "{lines:?}");
    }
    let before = unreadable(&server);
    for lines in [&["unknown"][..], &["192.0.2.1, _hidden"], &["192.0.2.1, k\u{1}"]] {
        assert_eq!(of(lines), 200, "{lines:?}");
    }
    assert_eq!(unreadable(&server) - before, 3.0);
    server.end();
}

#[test]
fn another_spelling_of_a_path_has_the_same_limit() {
    let sandbox = Sandbox::new();
    let rules = "[[check]]\nname = \"login\"\nmatch = { path = \"/login\" }\nlimits = \"1/h\"\n[[check]]\nname = \"each\"\n\
                 key = [\"ip\", \"path\"]\nlimits = \"1/h\"\n";
    let mut server = Server::start(&sandbox, rules);
    let of = |server: &Server, path: &str, ip: &str| {
        let traefik = format!("GET /v1/traefik HTTP/1.1\r\nX-Forwarded-Uri: {path}\r\nX-Forwarded-For: {ip}");
        let nginx = format!("GET /v1/nginx HTTP/1.1\r\nX-Attribute-Path: {path}\r\nX-Attribute-Ip: {ip}");
        [server.call(&traefik, "").status, server.call(&nginx, "").status]
    };
    assert_eq!(of(&server, "/login", "192.0.2.1"), [200, 403]);
    for path in
        ["/%6cogin", "/./login", "/x/../login", "/login#f", "/%2e/%6C%6fgin?x", "//login", "/login;v=1", "/x/..;/login"]
    {
        assert_eq!(of(&server, path, "192.0.2.2"), [429, 403], "{path}");
    }
    // With the path in the key, a spelling is no client of its own.
    assert_eq!(of(&server, "/a", "192.0.2.3"), [200, 403]);
    assert_eq!(of(&server, "/%61;b=1", "192.0.2.3"), [429, 403]);
    // An application that tells them apart has the key.
    server.folder.write(&text(&server.socket, &format!("merge-paths = false\n{rules}")));
    server.daemon.process.signal(Signal::HUP);
    server.daemon.line();
    assert_eq!(of(&server, "/%6cogin", "192.0.2.4"), [429, 403]);
    for path in ["//login", "/login;v=1"] {
        assert_eq!(of(&server, path, "192.0.2.5"), [200, 403], "{path}");
    }
    server.end();
}
