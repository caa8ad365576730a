//! Callers on other machines: encryption and tokens.

use std::{
    fs,
    io::Read as _,
    net::TcpStream,
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use ratelimit_tests::{Authority, Daemon, Folder, PATIENCE, Ratelimit, Sandbox, VICTIM_IPV4, scaled};
use rustix::process::Signal;
use serde_json::json;

use super::{Answer, RULES, Server, of_user, token};

/// The port of the server.
pub(super) const PORT: u16 = 8_443;
pub(super) const TOKENS: [(&str, &str, &str); 3] = [
    ("gateway", "c2VjcmV0IG9uZQ", "\"check\""),
    ("monitor", "c2VjcmV0IHR3bw", "[\"metrics\"]"),
    ("team-a", "c2VjcmV0IHRocmVl", "[\"rules:team-a-*\"]"),
];

/// A server that other machines can reach.
pub(super) struct Open<'a> {
    sandbox: &'a Sandbox,
    pub(super) daemon: Daemon,
    pub(super) folder: Folder,
}

impl<'a> Open<'a> {
    pub(super) fn start(sandbox: &'a Sandbox, authority: &Authority) -> Self {
        let folder = Folder::new();
        let tokens: String = TOKENS.iter().map(|(name, text, scopes)| token(name, text, scopes)).collect();
        let [cert, key] = ["cert.pem", "key.pem"].map(|name| folder.file().with_file_name(name).display().to_string());
        folder.write(&format!(
            "[serve]\nhttp = \"{VICTIM_IPV4}:{PORT}\"\ntls-cert = \"{cert}\"\ntls-key = \"{key}\"\n{tokens}{RULES}"
        ));
        certify(&folder, authority);
        let command = Ratelimit::new(sandbox).command(&format!("serve -c {}", folder.file().display()));
        let mut daemon = Daemon::by(sandbox, command);
        assert_eq!(daemon.line(), format!("ratelimit: serving https://{VICTIM_IPV4}:{PORT} by 1 rule"));
        Self { sandbox, daemon, folder }
    }

    fn url(path: &str) -> String {
        format!("https://{VICTIM_IPV4}:{PORT}{path}")
    }

    /// Calls with these options of curl. None if there is no connection.
    fn try_call(&self, authority: &Authority, path: &str, token: Option<&str>, options: &[&str]) -> Option<Answer> {
        let ca = self.folder.add("ca.pem", &authority.pem);
        let mut command = Command::new("curl");
        command.args(["-s", "-i", "--max-time", "20", "--cacert"]).arg(ca).args(options).arg(Self::url(path));
        if let Some(token) = token {
            command.args(["-H", &format!("Authorization: Bearer {token}")]);
        }
        let output = self.sandbox.output(&mut command);
        output.status.success().then(|| Answer::of(&String::from_utf8(output.stdout).unwrap()))
    }

    fn call(&self, authority: &Authority, path: &str, token: Option<&str>, options: &[&str]) -> Answer {
        self.try_call(authority, path, token, options).unwrap()
    }

    pub(super) fn check(&self, authority: &Authority, token: Option<&str>) -> Answer {
        let question = of_user("17").to_string();
        self.call(authority, "/v1/check", token, &["-d", &question])
    }
}

/// Writes a new certificate of the server, with its key.
fn certify(folder: &Folder, authority: &Authority) {
    let signed = authority.sign(&[&VICTIM_IPV4.to_string()]);
    let _: [PathBuf; 2] = [folder.add("cert.pem", &signed.certificate), folder.add("key.pem", &signed.key)];
}

#[test]
fn another_machine_asks_with_encryption_and_a_token_that_allows_it() {
    let sandbox = Sandbox::new();
    let authority = Authority::new("authority");
    let mut server = Open::start(&sandbox, &authority);
    let [gateway, monitor, team] = TOKENS.map(|(_, text, _)| Some(text));

    assert_eq!(server.check(&authority, gateway).status, 200);
    for token in [None, Some("c2VjcmV0IG9uZ"), Some("x")] {
        let answer = server.check(&authority, token);
        assert_eq!((answer.status, answer.header("www-authenticate")), (401, Some("Bearer")), "{answer:?}");
    }
    let answer = server.check(&authority, team);
    assert_eq!(
        (answer.status, &answer.body),
        (
            403,
            &json!({"error": "the token team-a may not ask about requests: the operator of the server can give it the scope check, in its [[token]]"})
        )
    );
    for path in ["/v1/nginx", "/v1/traefik", "/v1/check/batch", "/metrics", "/v1/rules"] {
        assert_eq!(server.call(&authority, path, None, &[]).status, 401, "{path}");
    }
    assert_eq!(server.call(&authority, "/health", None, &[]).status, 200);
    let metrics = server.call(&authority, "/metrics", monitor, &[]);
    let metrics = metrics.body.as_str().unwrap();
    for line in [
        "ratelimit_check_denied_calls_total{reason=\"no_token\"} 6",
        "ratelimit_check_denied_calls_total{reason=\"unknown_token\"} 2",
        "ratelimit_check_denied_calls_total{reason=\"no_scope\"} 1",
        "ratelimit_check_decisions_total{decision=\"allowed\"} 1",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }

    // Versions before TLS 1.2, and calls without encryption, are refused.
    assert!(server.try_call(&authority, "/health", None, &["--tls-max", "1.2"]).is_some());
    assert!(server.try_call(&authority, "/health", None, &["--tlsv1.0", "--tls-max", "1.1"]).is_none());
    let mut plain = Command::new("curl");
    plain.args(["-s", "--max-time", "20", &Open::url("/health").replace("https", "http")]);
    assert!(!sandbox.output(&mut plain).status.success());

    server.daemon.process.signal(Signal::TERM);
    assert_eq!(server.daemon.line(), "", "the server has written about its callers");
    assert!(server.daemon.process.wait().status.success());
}

#[test]
fn a_reload_reads_certificates_and_tokens_again_and_a_broken_certificate_changes_nothing() {
    let sandbox = Sandbox::new();
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let mut server = Open::start(&sandbox, &old);
    let gateway = Some(TOKENS[0].1);

    let _ = server.folder.add("cert.pem", "-----BEGIN CERTIFICATE-----\nnonsense\n");
    server.daemon.process.signal(Signal::HUP);
    let line = server.daemon.line();
    assert!(line.starts_with("ratelimit: the certificate before stays in use: tls-cert: "), "{line}");
    assert_eq!(server.daemon.line(), "ratelimit: 1 rule in force");
    assert_eq!(server.check(&old, gateway).status, 200);

    certify(&server.folder, &new);
    let text = fs::read_to_string(server.folder.file()).unwrap();
    server.folder.write(&text.replacen("\"check\"", "\"metrics\"", 1));
    server.daemon.process.signal(Signal::HUP);
    assert_eq!(server.daemon.line(), "ratelimit: 1 rule in force");
    assert!(server.try_call(&new, "/health", None, &[]).is_some());
    assert!(server.try_call(&old, "/health", None, &[]).is_none());
    assert_eq!(server.check(&new, gateway).status, 403);
}

#[test]
fn a_caller_that_does_not_agree_on_keys_keeps_no_other_caller_waiting() {
    let sandbox = Sandbox::new();
    let authority = Authority::new("authority");
    let server = Open::start(&sandbox, &authority);
    let begin = Instant::now();
    let connect = || TcpStream::connect((VICTIM_IPV4, PORT)).unwrap();
    let mut slow: Vec<_> = sandbox.victim(|| (0..50).map(|_| connect()).collect());
    assert_eq!(server.check(&authority, Some(TOKENS[0].1)).status, 200);
    // The server has not ended the others yet.
    slow[0].set_nonblocking(true).unwrap();
    assert_eq!(slow[0].read(&mut [0; 1]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    slow[0].set_nonblocking(false).unwrap();
    for stream in &mut slow {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
    }
    let time = begin.elapsed();
    assert!(time >= Duration::from_secs(9) && time < scaled(Duration::from_secs(25)), "{time:?}");
}

#[test]
fn a_file_that_leaves_the_server_open_is_refused_with_what_to_add() {
    let sandbox = Sandbox::new();
    let folder = Folder::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let fails = |keys: &str| {
        folder.write(&format!("[serve]\nhttp = \"{VICTIM_IPV4}:{PORT}\"\n{keys}{RULES}"));
        ratelimit.fails(&format!("serve -c {}", folder.file().display()))
    };
    let error = fails("");
    let expected = "other machines can reach this address: add tls-cert and tls-key, and a table [[token]]";
    assert!(error.ends_with(expected), "{error}");

    let [authority, other] = ["authority", "other"].map(Authority::new);
    let signed = authority.sign(&["localhost"]);
    let cert = folder.add("cert.pem", &signed.certificate);
    let key = folder.add("key.pem", &other.sign(&["localhost"]).key);
    let tls = format!("tls-cert = \"{}\"\ntls-key = \"{}\"\n", cert.display(), key.display());
    assert!(fails(&tls).ends_with("other machines can reach this address: add a table [[token]]"));
    let tls = tls + &token("gateway", "secret", "\"check\"");
    let error = fails(&tls);
    assert!(error.ends_with("the key belongs to another certificate than that of tls-cert"), "{error}");
    fs::remove_file(&key).unwrap();
    let error = fails(&tls);
    assert!(error.contains("tls-key: ") && error.contains("cannot be read: No such file"), "{error}");
}

#[test]
fn callers_of_the_socket_ask_without_a_token_and_read_rules_only_with_one() {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, &(token("auditor", "secret", "\"rules:read\"") + RULES));
    // A proxy can pass on what its client sends.
    let check = "POST /v1/check HTTP/1.1\r\nauthorization: Bearer other";
    assert_eq!(server.call(check, &of_user("17").to_string()).status, 200);
    assert_eq!(server.call("GET /metrics HTTP/1.1", "").status, 200);
    assert_eq!(server.call("GET /v1/rules HTTP/1.1", "").status, 401);
    let answer = server.call("GET /v1/rules HTTP/1.1\r\nauthorization: Bearer secret", "");
    assert_eq!((answer.status, &answer.body["rules"][0]["name"]), (200, &json!("create-url")));
    server.end();
}
