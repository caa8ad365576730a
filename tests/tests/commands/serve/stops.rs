//! A server that asks the daemon to stop clients, with real connections. The daemon is in shadow, but in one test.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::unix::net::UnixListener,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use envoy_types::pb::envoy::service::ratelimit::v3::{
    rate_limit_response::Code, rate_limit_service_client::RateLimitServiceClient,
};
use ratelimit_tests::{Daemon, Flood, Folder, Frame, PATIENCE, PEER_IPV4, Ratelimit, Sandbox, VICTIM_IPV4, scaled};
use rustix::{
    net::{AddressFamily, SocketType, bind, connect, socket},
    process::Signal,
};
use serde_json::{Value, json};

use super::{
    Answer, Server, call,
    envoy::{descriptor, request},
};
use crate::metrics::{scrape, series, start};

const DAEMON: &str = "interfaces = [\"eth0\"]\n[default]\npackets = \"1000/s\"\n";
const RULE: &str = "[[check]]\nname = \"login\"\nkey = \"user\"\nlimits = \"3/h\"\nstop-at-nic = true\n";

/// A client of this address, with the connection that the victim has accepted.
struct Client {
    accepted: TcpStream,
    _client: TcpStream,
}

impl Client {
    fn connect(sandbox: &Sandbox, listener: &TcpListener, address: IpAddr) -> Self {
        let to = listener.local_addr().unwrap();
        let client = sandbox.peer(|| {
            let client = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
            bind(&client, &SocketAddr::new(address, 0)).unwrap();
            connect(&client, &to).unwrap();
            TcpStream::from(client)
        });
        Self { accepted: listener.accept().unwrap().0, _client: client }
    }

    /// Returns the question of an application about a request over this connection.
    fn question(&self, user: &str) -> Value {
        let (local, remote) = (self.accepted.local_addr().unwrap(), self.accepted.peer_addr().unwrap());
        let connection = json!({ "local": local.to_string(), "remote": remote.to_string() });
        json!({ "attributes": { "user": user }, "connection": connection })
    }
}

/// A server that asks the daemon at this socket, and the line that says whether it answers.
fn serve(sandbox: &Sandbox, stops: &Path) -> (Server, String) {
    let mut server = Server::start(sandbox, &format!("stops = \"{}\"\n{RULE}", stops.display()));
    let line = server.daemon.line();
    (server, line)
}

fn listener(sandbox: &Sandbox) -> TcpListener {
    sandbox.victim(|| TcpListener::bind(SocketAddr::new(VICTIM_IPV4.into(), 8_443)).unwrap())
}

/// Returns how often a refused request had this outcome.
fn count(server: &Server, outcome: &str) -> f64 {
    let page = server.call("GET /metrics HTTP/1.1", "").body;
    series(page.as_str().unwrap())[&format!("ratelimit_check_stops_total{{outcome=\"{outcome}\"}}")]
}

/// Repeats these questions until a request had this outcome. Returns the last answers.
fn ask_until(server: &Server, questions: &[Value], outcome: &str) -> Vec<Answer> {
    let begin = Instant::now();
    loop {
        let answers: Vec<_> = questions.iter().map(|question| server.check(question)).collect();
        if count(server, outcome) > 0.0 {
            return answers;
        }
        assert!(begin.elapsed() < PATIENCE, "{answers:?} {}", server.call("GET /metrics HTTP/1.1", "").body);
        // A client that asks twenty times per second.
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_client_that_goes_on_is_asked_for_once_and_a_shared_address_never() {
    let (sandbox, folder) = (Sandbox::new(), Folder::new());
    let ratelimit = Ratelimit::new(&sandbox);
    let stops = folder.file().with_file_name("stops");
    let file = format!("{DAEMON}[stops]\nsocket = \"{}\"\n", stops.display());
    let mut daemon: Daemon = start(&sandbox, &ratelimit, &folder, &file);
    let (server, line) = serve(&sandbox, &stops);
    assert_eq!(line, format!("ratelimit: stops: the daemon answers on {}", stops.display()));
    let listener = listener(&sandbox);
    let other = IpAddr::from([10, 9, 0, 77]);
    sandbox.add_peer_address(other);
    let alone = Client::connect(&sandbox, &listener, PEER_IPV4.into());
    let shared = Client::connect(&sandbox, &listener, other);
    for user in ["21", "22", "23"] {
        assert_eq!(server.check(&shared.question(user)).status, 200);
    }
    // The shared address is known for longer each time.
    let questions = [shared.question("18"), alone.question("17")];
    let answers = ask_until(&server, &questions, "would_stop");
    assert_eq!(answers.iter().map(|answer| answer.status).collect::<Vec<_>>(), [429, 429]);
    let peer = alone.accepted.peer_addr().unwrap();
    let event = format!(
        "ratelimit: 10.9.0.2 tcp/8443: would be limited for 10s (number 1): client user=17 exceeds login, as user 0 says; \
         connection {peer} to 10.9.0.1:8443 is established"
    );
    assert_eq!(daemon.line(), event);
    for _ in 0..20 {
        assert!(questions.iter().all(|question| server.check(question).status == 429));
    }
    assert_eq!(
        ["would_stop", "already", "refused", "dropped"].map(|outcome| count(&server, outcome)),
        [1.0, 0.0, 0.0, 0.0]
    );
    let scrape = scrape(&ratelimit);
    let requests = scrape.iter().filter(|(name, _)| name.starts_with("ratelimit_stop_requests_total"));
    assert_eq!(requests.map(|(_, count)| count).sum::<f64>(), 1.0);
    server.end();
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn a_client_that_goes_on_is_limited_in_the_kernel_and_others_are_not() {
    let (sandbox, folder) = (Sandbox::new(), Folder::new());
    let ratelimit = Ratelimit::new(&sandbox);
    let stops = folder.file().with_file_name("stops");
    let file = format!("{DAEMON}[stops]\nsocket = \"{}\"\nmode = \"on\"\n", stops.display());
    let mut daemon: Daemon = start(&sandbox, &ratelimit, &folder, &file);
    let (server, _) = serve(&sandbox, &stops);
    let listener = listener(&sandbox);
    let client = Client::connect(&sandbox, &listener, PEER_IPV4.into());
    // The daemon first loads another program, and its answer is awaited.
    ask_until(&server, &[client.question("17")], "stopped");
    let line = daemon.line();
    assert!(line.starts_with("ratelimit: 10.9.0.2 tcp/8443: limited for "), "{line}");
    assert!(line.contains("client user=17 exceeds login, as user 0 says"), "{line}");
    let other = Ipv4Addr::new(10, 9, 0, 3);
    for source in [PEER_IPV4, other] {
        Flood::of(Frame::ack(source, 8_443)).send(&sandbox, 500);
    }
    let dropped = |source: Ipv4Addr| {
        let why = ratelimit.json(&format!("why {source} --service tcp/8443"));
        why["dropped"]["packets"].as_u64().unwrap()
    };
    assert!(dropped(PEER_IPV4) >= 400);
    assert_eq!(dropped(other), 0);
    // No answer was late.
    assert_eq!(["unanswered", "refused"].map(|outcome| count(&server, outcome)), [0.0, 0.0]);
    server.end();
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn a_daemon_that_is_gone_delays_no_answer_and_is_asked_once_it_is_there() {
    let (sandbox, folder) = (Sandbox::new(), Folder::new());
    let stops = folder.file().with_file_name("stops");
    let (mut server, line) = serve(&sandbox, &stops);
    assert!(line.starts_with(&format!("ratelimit: stops: {}: No such file", stops.display())), "{line}");
    let client = Client::connect(&sandbox, &listener(&sandbox), PEER_IPV4.into());
    ask_until(&server, &[client.question("17")], "unanswered");
    // A daemon that accepts nothing.
    let silent = UnixListener::bind(&stops).unwrap();
    let begin = Instant::now();
    for _ in 0..100 {
        assert_eq!(server.check(&client.question("17")).status, 429);
    }
    assert!(begin.elapsed() < scaled(Duration::from_secs(10)), "{:?}", begin.elapsed());
    drop(silent);
    std::fs::remove_file(&stops).unwrap();
    let ratelimit = Ratelimit::new(&sandbox);
    let file = format!("{DAEMON}[stops]\nsocket = \"{}\"\n", stops.display());
    let daemon = start(&sandbox, &ratelimit, &folder, &file);
    // The listening socket is closed, so the daemon refuses. It answers.
    ask_until(&server, &[client.question("17")], "refused");
    assert_eq!(server.daemon.line(), format!("ratelimit: stops: the daemon answers on {}", stops.display()));
    server.end();
    daemon.end();
    ratelimit.ok("detach --all");
}

#[test]
fn only_a_caller_of_a_unix_socket_that_names_a_connection_changes_anything() {
    let (sandbox, folder) = (Sandbox::new(), Folder::new());
    let (server, _) = serve(&sandbox, &folder.file().with_file_name("stops"));
    let unnamed = json!({ "attributes": { "user": "17", "ip": "192.0.2.7" } });
    let statuses: Vec<_> = (0..6).map(|_| server.check(&unnamed).status).collect();
    assert_eq!(statuses, [200, 200, 200, 429, 429, 429]);
    assert_eq!((count(&server, "no_connection"), count(&server, "early")), (3.0, 0.0));
    let nginx = |ends: &str| server.call(&format!("GET /v1/nginx HTTP/1.1\r\nX-Attribute-User: 17\r\n{ends}"), "");
    let ends = "X-Connection-Local: 2001:db8::1:443\r\nX-Connection-Remote: 2001:db8::7:51000";
    assert_eq!((nginx(ends).status, count(&server, "early")), (403, 1.0));
    // nginx lets requests pass whose answer is 400.
    let ends = "X-Connection-Local: unix:/run/nginx.sock:\r\nX-Connection-Remote: unix::";
    assert_eq!((nginx(ends).status, count(&server, "no_connection")), (403, 4.0));
    for (local, error) in [
        ("192.0.2.1", "192.0.2.1: expected ADDRESS:PORT"),
        ("192.0.2.1:0", "a port of the connection is 0: name the ports of an open connection"),
        ("[2001:db8::1]:443", "the ends of the connection have different families"),
    ] {
        let connection = json!({ "local": local, "remote": "203.0.113.7:51000" });
        let answer = server.check(&json!({ "attributes": {}, "connection": connection }));
        assert!(answer.status == 400 && answer.body["error"].as_str().unwrap().contains(error), "{answer:?}");
    }
    server.end();
}

#[test]
fn a_caller_of_a_loopback_address_cannot_name_a_connection_and_envoy_can_by_a_socket() {
    let (sandbox, folder) = (Sandbox::new(), Folder::new());
    let socket = folder.file().with_file_name("check.sock");
    let stops = folder.file().with_file_name("stops");
    let file =
        format!("grpc = \"unix:{}\"\nhttp = \"127.0.0.1:8080\"\nstops = \"{}\"\n", socket.display(), stops.display());
    folder.write(&format!("[serve]\n{file}metrics = \"127.0.0.1:9465\"\n{RULE}"));
    let command = Ratelimit::new(&sandbox).command(&format!("serve -c {}", folder.file().display()));
    let mut daemon = Daemon::by(&sandbox, command);
    let line = daemon.line();
    assert!(line.starts_with("ratelimit: serving http://127.0.0.1:8080, and gRPC on unix:"), "{line}");
    assert!(line.ends_with(" by 1 rule, metrics on http://127.0.0.1:9465"), "{line}");
    let connection = json!({ "local": "192.0.2.1:443", "remote": "203.0.113.7:51000" });
    let question = json!({ "attributes": { "user": "17" }, "connection": connection }).to_string();
    let curl = |url: &str, data: &[&str]| {
        let mut command = std::process::Command::new("curl");
        command.args(["--silent", "--max-time", "10"]).args(data).arg(format!("http://127.0.0.1:{url}"));
        String::from_utf8(sandbox.output(&mut command).stdout).unwrap()
    };
    for _ in 0..4 {
        curl("8080/v1/check", &["--data", &question]);
    }
    let outcomes = || {
        let page = series(&curl("9465/metrics", &[]));
        let outcomes = ["no_connection", "not_allowed", "early", "shared"];
        outcomes.map(|outcome| page[&format!("ratelimit_check_stops_total{{outcome=\"{outcome}\"}}")])
    };
    assert_eq!(outcomes(), [0.0, 1.0, 0.0, 0.0]);
    // The socket of gRPC may name one. The descriptors of a call are one request: the second one names no user.
    let ends = [("connection_local", "192.0.2.1:443"), ("connection_remote", "203.0.113.7:51000")];
    let user = descriptor(&[&[("user", "17")], &ends[..]].concat());
    let request = request([user, descriptor(&[("path", "/login")])], 0);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut client = RateLimitServiceClient::connect(format!("unix:{}", socket.display())).await.unwrap();
        let answer = client.should_rate_limit(request).await.unwrap().into_inner();
        assert_eq!(answer.overall_code(), Code::OverLimit);
    });
    assert_eq!(outcomes(), [0.0, 1.0, 1.0, 0.0]);
    // The address for metrics answers no questions.
    assert_eq!(curl("9465/health", &[]), "ok\n");
    let expected = r#"{"error":"not found: expected GET /metrics or GET /health"}"#;
    assert_eq!(curl("9465/v1/check", &["--data", &question]), expected);
    daemon.process.signal(Signal::TERM);
    assert!(daemon.process.wait().status.success());
}

#[test]
fn a_rule_of_a_caller_cannot_stop_clients() {
    let (sandbox, folder) = (Sandbox::new(), Folder::new());
    let rules = folder.file().with_file_name("rules.toml");
    let token = super::token("team", "secret", "\"rules:*\"");
    let more = format!("rules = \"{}\"\n{token}", rules.display());
    let server = Server::start(&sandbox, &more);
    let body = json!({ "limits": "3/m", "key": "user", "stop-at-nic": true }).to_string();
    let head = "PUT /v1/rules/a HTTP/1.1\r\nauthorization: Bearer secret\r\nif-none-match: *";
    let answer = call(&server.socket, head, &body);
    assert_eq!(answer.status, 400);
    assert_eq!(answer.body["error"], "stop-at-nic: remove this key: only rules in the file of the server may have it");
    server.end();
}
