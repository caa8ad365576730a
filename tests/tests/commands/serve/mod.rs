//! `ratelimit serve`: how it starts, reloads and ends.

mod access;
mod answers;
mod caller;
mod console;
mod console_changes;
mod console_packets;
mod console_proxy;
mod envoy;
mod faults;
mod layer;
mod nginx;
mod prometheus;
pub(super) mod rules;
mod stops;
mod unit;
mod usage;

use std::{
    io::{ErrorKind, Read, Write as _},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::Command,
};

use ratelimit_tests::{Daemon, Folder, Ratelimit, Sandbox, wait_until};
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
pub(super) struct Answer {
    pub(super) status: u16,
    head: String,
    body: Value,
}

impl Answer {
    fn of(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let body = serde_json::from_str(body).unwrap_or_else(|_| Value::String(body.to_owned()));
        Self { status, head: head.to_owned(), body }
    }

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
        call(&self.socket, head, body)
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

pub(super) fn call(socket: &Path, head: &str, body: &str) -> Answer {
    let mut stream = UnixStream::connect(socket).unwrap();
    let head = format!("{head}\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
    // A server that refuses a call may close before all of it has arrived.
    if let Err(error) = stream.write_all(format!("{head}{body}").as_bytes()) {
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    }
    answer(stream)
}

fn text(socket: &Path, rules: &str) -> String {
    format!("[serve]\nhttp = \"unix:{}\"\n{rules}", socket.display())
}

fn answer(mut stream: impl Read) -> Answer {
    let mut bytes = Vec::new();
    // A server that has not read the whole call resets the connection after its answer.
    let _ = stream.read_to_end(&mut bytes);
    Answer::of(&String::from_utf8(bytes).unwrap())
}

/// Returns a table `[[token]]`. The hash is that of the command in the documents.
pub(super) fn token(name: &str, text: &str, scopes: &str) -> String {
    let folder = Folder::new();
    let hash = Command::new("sha256sum").arg(folder.add("token", text)).output().unwrap();
    let hash = String::from_utf8(hash.stdout).unwrap();
    let hash = hash.split_whitespace().next().unwrap();
    format!("[[token]]\nname = \"{name}\"\nsha256 = \"{hash}\"\nscope = {scopes}\n")
}

fn of_user(user: &str) -> Value {
    json!({"attributes": {"operation": "createURL", "user": user}})
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
    let shadow = "[[check]]\nname = \"all\"\nlimits = \"1/d\"\nshadow = true\n";
    server.folder.write(&text(&server.socket, &format!("{}{shadow}", RULES.replace("3/m", "5/m"))));
    server.daemon.process.signal(Signal::HUP);
    assert_eq!(server.daemon.line(), "ratelimit: 2 rules in force, 1 of them in shadow");
    assert_eq!(allowed(&server), 0);
    server.folder.write(&text(&server.socket, &RULES.replace("3/m", "often")));
    server.daemon.process.signal(Signal::HUP);
    let line = server.daemon.line();
    assert!(line.starts_with("ratelimit: the rules before stay in force: ") && line.contains(":8:"), "{line}");
    assert_eq!(allowed(&server), 0);
    server.end();
}

#[test]
fn a_reload_of_a_file_that_limits_nothing_changes_nothing() {
    let sandbox = Sandbox::new();
    let mut server = Server::start(&sandbox, RULES);
    let allowed = |server: &Server| (0..5).filter(|_| server.check(&of_user("17")).status == 200).count();
    assert_eq!(allowed(&server), 3);
    for (text, problem) in [
        (String::new(), "nothing to serve: add `http` or `grpc` to the table [serve]"),
        (text(&server.socket, ""), "nothing would be limited: add a table [[check]], or `rules` to the table [serve]"),
    ] {
        server.folder.write(&text);
        server.daemon.process.signal(Signal::HUP);
        let line = server.daemon.line();
        assert!(line.starts_with("ratelimit: the rules before stay in force: ") && line.ends_with(problem), "{line}");
    }
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
    wait_until("the server removes its socket", || !socket.exists());
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
    let binary = Ratelimit::new(&sandbox).copy_into(&folder_path);
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
    assert!(error.ends_with("nothing to serve: add `http` or `grpc` to the table [serve]"), "{error}");
    // A table that nobody reads would be missed.
    folder.write(&format!("{RULES}[flet]\n"));
    let error = Ratelimit::new(&sandbox).fails(&format!("serve -c {}", folder.file().display()));
    assert!(error.contains("flet: unknown key: did you mean fleet"), "{error}");
}
