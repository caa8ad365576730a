//! `ratelimit serve`: decides about requests by HTTP over a Unix socket.

use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
    path::PathBuf,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use ratelimit_tests::{Daemon, Folder, Ratelimit, Sandbox};
use rustix::process::Signal;
use serde_json::{Value, json};

const RULES: &str = "
[[check]]
name = \"create-url\"
match = { operation = \"createURL\" }
key = [\"user\"]
limits = [\"100/h\", \"3/m\"]
algorithm = \"sliding-log\"
";

/// An answer: status, head, and body as JSON or text.
#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: Value,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let line = |line: &'_ str| line.to_ascii_lowercase().starts_with(&format!("{name}:"));
        self.head.lines().find(|found| line(found)).map(|line| line.split_once(": ").unwrap().1)
    }
}

/// A server, and its socket.
struct Server {
    daemon: Daemon,
    socket: PathBuf,
    folder: Folder,
}

impl Server {
    fn start(sandbox: &Sandbox, rules: &str) -> Self {
        let folder = Folder::new();
        let socket = folder.file().with_file_name("check.sock");
        folder.write(&text(&socket, rules));
        let command = Ratelimit::new(sandbox).command(&format!("serve -c {}", folder.file().display()));
        let mut daemon = Daemon::by(sandbox, command);
        let line = daemon.line();
        assert!(line.starts_with(&format!("ratelimit: serving unix:{} by", socket.display())), "{line}");
        Self { daemon, socket, folder }
    }

    fn call(&self, head: &str, body: &str) -> Answer {
        let mut stream = UnixStream::connect(&self.socket).unwrap();
        write!(
            stream,
            "{head}\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        answer(stream)
    }

    fn check(&self, question: &Value) -> Answer {
        self.call("POST /v1/check HTTP/1.1\r\ncontent-type: application/json", &question.to_string())
    }

    fn end(mut self) {
        self.daemon.process.signal(Signal::TERM);
        assert!(self.daemon.process.wait().status.success());
        assert!(!self.socket.exists());
    }
}

fn text(socket: &std::path::Path, rules: &str) -> String {
    format!("[serve]\nhttp = \"unix:{}\"\n{rules}", socket.display())
}

fn answer(mut stream: UnixStream) -> Answer {
    let mut bytes = Vec::new();
    // A server that has not read the whole call resets the connection after its answer.
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let body = serde_json::from_str(body).unwrap_or_else(|_| Value::String(body.to_owned()));
    Answer { status, head: head.to_owned(), body }
}

fn of_user(user: &str) -> Value {
    json!({"attributes": {"operation": "createURL", "user": user}})
}

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
        "ratelimit_check_clients{rule=\"create-url\"} 2",
    ] {
        assert!(page.as_str().unwrap().lines().any(|found| found == line), "{page}");
    }
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
        ("POST /v1/check", "", 400, "EOF while parsing a value at line 1 column 0"),
        ("POST /v1/check", "{}", 400, "missing field `attributes` at line 1 column 2"),
        (
            "POST /v1/check",
            "{\"attributes\": {\"user\": 17}}",
            400,
            "invalid type: integer `17`, expected a string at line 1 column 26",
        ),
        (
            "POST /v1/check",
            "{\"attributes\": {}, \"cost\": -1}",
            400,
            "invalid value: integer `-1`, expected u32 at line 1 column 29",
        ),
        (
            "POST /v1/check",
            "{\"attributes\": {}, \"price\": 1}",
            400,
            "unknown field `price`, expected `attributes` or `cost` at line 1 column 26",
        ),
        (
            "POST /v1/check",
            "{\"attributes\": {\"ip\": \"192.0.2.1:80\"}}",
            400,
            "ip: expected an address without a port, such as 192.0.2.1 or 2001:db8::1",
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
    assert_eq!(server.call("GET /v1/check HTTP/1.1", "").status, 405);
    let cost = server.call("GET /v1/nginx HTTP/1.1\r\nX-Cost: many", "");
    assert_eq!((cost.status, &cost.body["error"]), (400, &"x-cost: expected a whole number".into()));
    server.end();
}

#[test]
fn a_reload_raises_a_limit_for_the_next_request_and_a_broken_file_changes_nothing() {
    let sandbox = Sandbox::new();
    let mut server = Server::start(&sandbox, RULES);
    let allowed = |server: &Server| (0..10).filter(|_| server.check(&of_user("17")).status == 200).count();
    assert_eq!(allowed(&server), 3);
    server.folder.write(&text(&server.socket, &RULES.replace("3/m", "5/m")));
    server.daemon.process.signal(Signal::HUP);
    assert_eq!(server.daemon.line(), "ratelimit: 1 rule in force");
    assert_eq!(allowed(&server), 2);
    server.folder.write(&text(&server.socket, &RULES.replace("3/m", "often")));
    server.daemon.process.signal(Signal::HUP);
    let line = server.daemon.line();
    assert!(line.starts_with("ratelimit: the rules before stay in force: ") && line.contains(":8:"), "{line}");
    assert_eq!(allowed(&server), 0);
    server.end();
}

#[test]
fn a_call_that_has_begun_is_answered_when_the_server_ends() {
    let sandbox = Sandbox::new();
    let Server { mut daemon, socket, folder } = Server::start(&sandbox, RULES);
    let body = of_user("17").to_string();
    let mut stream = UnixStream::connect(&socket).unwrap();
    write!(
        stream,
        "POST /v1/check HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        body.len()
    )
    .unwrap();
    // The server reads the body now.
    let mut continued = [0; "HTTP/1.1 100 Continue\r\n\r\n".len()];
    stream.read_exact(&mut continued).unwrap();
    assert_eq!(&continued, b"HTTP/1.1 100 Continue\r\n\r\n");
    daemon.process.signal(Signal::TERM);
    let begin = Instant::now();
    while socket.exists() {
        assert!(begin.elapsed() < Duration::from_secs(5));
        thread::yield_now();
    }
    stream.write_all(body.as_bytes()).unwrap();
    assert_eq!(answer(stream).status, 200);
    assert!(daemon.process.wait().status.success());
    drop(folder);
}

#[test]
fn a_server_needs_no_privileges_and_replaces_a_socket_that_another_one_left() {
    let sandbox = Sandbox::new();
    let folder = Folder::new();
    let socket = folder.file().with_file_name("check.sock");
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    folder.write(&text(&socket, RULES));
    let folder_path = folder.file().parent().unwrap().to_owned();
    std::os::unix::fs::chown(&folder_path, Some(65_534), Some(65_534)).unwrap();
    std::os::unix::fs::chown(&socket, Some(65_534), Some(65_534)).unwrap();
    // The binary lies where only root may look.
    let binary = folder_path.join("ratelimit");
    fs::copy(Ratelimit::new(&sandbox).command("").get_program(), &binary).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--no-new-privs"]);
    command.arg(&binary).args(["serve", "-c"]).arg(folder.file());
    let mut daemon = Daemon::by(&sandbox, command);
    let line = daemon.line();
    assert!(line.starts_with("ratelimit: serving unix:"), "{line}");
    let server = Server { daemon, socket, folder };
    assert_eq!(server.check(&of_user("17")).status, 200);
    // Another server does not take its socket.
    let error = Ratelimit::new(&sandbox).fails(&format!("serve -c {}", server.folder.file().display()));
    assert!(error.contains("another server listens on"), "{error}");
    server.end();
}

#[test]
fn a_file_without_an_address_is_refused() {
    let sandbox = Sandbox::new();
    let folder = Folder::new();
    folder.write(RULES);
    let error = Ratelimit::new(&sandbox).fails(&format!("serve -c {}", folder.file().display()));
    assert!(error.ends_with("nothing to serve: add `http` to the table [serve]"), "{error}");
}
