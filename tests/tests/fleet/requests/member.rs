//! Servers of requests whose callers change rules, and calls of them.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    path::PathBuf,
    time::{Duration, Instant},
};

use ratelimit_tests::{Daemon, Folder, PATIENCE, Ratelimit, Redis, Sandbox};
use redis::{FromRedisValue, aio::MultiplexedConnection};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::stage::wait;

/// A token that may change all rules, and its hash.
pub(super) const TOKEN: &str = "YWRtaW4";
const HASH: &str = "f68a6793a378453a76d4fdcae3ea2d20cf24eb13a8cc4777b9ce7f10a9af5ca9";

/// A server, and its folder.
pub(super) struct Member<'a> {
    pub(super) daemon: Daemon,
    pub(super) folder: Folder,
    sandbox: &'a Sandbox,
    port: u16,
    /// Lines of the log before it was serving.
    early: Vec<String>,
}

/// An answer: its status, its version and its body.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) version: Option<u64>,
    pub(super) body: Value,
}

/// The table of a fleet.
pub(super) fn fleet(port: u16) -> String {
    format!("{}engine = \"redis://127.0.0.1:{}\"\n", fleet_of(port), Redis::PORT)
}

/// The table of a fleet without its engine.
pub(super) fn fleet_of(port: u16) -> String {
    format!("[fleet]\nname = \"server{port}\"\nperiod = \"100ms\"\n")
}

impl<'a> Member<'a> {
    /// Starts a server with further keys of `[serve]`, and further tables.
    pub(super) fn start(sandbox: &'a Sandbox, port: u16, folder: Folder, keys: &str, tables: &str) -> Self {
        let rules = folder.file().with_file_name("rules.toml");
        folder.write(&format!(
            "[serve]\nhttp = \"127.0.0.1:{port}\"\nrules = \"{}\"\n{keys}{tables}\
             [[token]]\nname = \"admin\"\nsha256 = \"{HASH}\"\nscope = [\"rules:*\", \"rules:read\"]\n\
             [[check]]\nname = \"own\"\nkey = \"user\"\nlimits = \"1000/s\"\n",
            rules.display()
        ));
        let command = Ratelimit::new(sandbox).command(&format!("serve -c {}", folder.file().display()));
        let mut daemon = Daemon::by(sandbox, command);
        // A fast engine can have answered before.
        let mut early = Vec::new();
        loop {
            let line = daemon.line();
            if line.starts_with(&format!("ratelimit: serving http://127.0.0.1:{port} by ")) {
                break;
            }
            assert!(line.starts_with("ratelimit: fleet: "), "{line}");
            early.push(line);
        }
        Self { daemon, folder, sandbox, port, early }
    }

    /// Starts a server that is in the fleet when this returns.
    pub(super) fn join(sandbox: &'a Sandbox, port: u16) -> Self {
        let mut member = Self::start(sandbox, port, Folder::new(), "", &fleet(port));
        member.await_line("answers: limits are shared");
        member
    }

    /// Reads lines of the log until one has this text.
    pub(super) fn await_line(&mut self, text: &str) -> String {
        loop {
            let line = if self.early.is_empty() { self.daemon.line() } else { self.early.remove(0) };
            if line.contains(text) {
                return line;
            }
        }
    }

    pub(super) fn rules(&self) -> PathBuf {
        self.folder.file().with_file_name("rules.toml")
    }

    pub(super) fn call(&self, head: &str, body: &str) -> Answer {
        self.sandbox.victim(|| {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
            let length = body.len();
            let head = format!("{head}\r\nauthorization: Bearer {TOKEN}\r\nhost: x\r\nconnection: close");
            write!(stream, "{head}\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            let tag = head.lines().find_map(|line| line.strip_prefix("etag: "));
            Answer {
                status: head.split(' ').nth(1).unwrap().parse().unwrap(),
                version: tag.map(|tag| tag.trim_matches('"').parse().unwrap()),
                body: serde_json::from_str(body).unwrap_or_else(|_| Value::String(body.to_owned())),
            }
        })
    }

    /// Writes a rule with this limit in place of a version. None creates it.
    pub(super) fn put(&self, name: &str, version: Option<u64>, limit: &str) -> Answer {
        let condition = version.map_or("if-none-match: *".to_owned(), |version| format!("if-match: \"{version}\""));
        let rule = json!({"key": ["user"], "match": {"operation": name}, "limits": limit});
        loop {
            let answer = self.call(&format!("PUT /v1/rules/{name} HTTP/1.1\r\n{condition}"), &rule.to_string());
            // A new fleet waits for members that know its rules.
            if !(answer.status == 503 && answer.body["error"].as_str().unwrap().ends_with("try again in 3 s")) {
                return answer;
            }
            wait(0.1);
        }
    }

    /// Returns the version of a rule. None if it is not in force.
    pub(super) fn version(&self, name: &str) -> Option<u64> {
        self.call(&format!("GET /v1/rules/{name} HTTP/1.1"), "").version
    }

    /// Waits until a version of a rule is in force, and returns how long that took.
    pub(super) fn await_version(&self, name: &str, version: Option<u64>) -> Duration {
        let begin = Instant::now();
        while self.version(name) != version {
            assert!(begin.elapsed() < PATIENCE, "{name}: {:?}, not {version:?}", self.version(name));
            wait(0.02);
        }
        begin.elapsed()
    }

    /// Returns the status of the decision about one request.
    pub(super) fn ask(&self, operation: &str, user: &str) -> u16 {
        let body = json!({"attributes": {"operation": operation, "user": user}}).to_string();
        self.call("POST /v1/check HTTP/1.1", &body).status
    }

    /// Returns the last changes: for each its version, action, server and name.
    pub(super) fn log(&self) -> Vec<(u64, String, String, String)> {
        let answer = self.call("GET /v1/rules/log HTTP/1.1", "");
        let row = |row: &Value| {
            let [action, server, name] = ["action", "server", "name"].map(|key| row[key].as_str().unwrap().to_owned());
            (row["version"].as_u64().unwrap(), action, server, name)
        };
        answer.body["changes"].as_array().unwrap().iter().map(row).collect()
    }

    /// Returns a metric.
    pub(super) fn metric(&self, name: &str) -> Option<f64> {
        let page = self.call("GET /metrics HTTP/1.1", "").body;
        let line = page.as_str().unwrap().lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.map(|value| value.parse().unwrap())
    }

    /// Ends the server, and returns its folder.
    pub(super) fn end(mut self) -> Folder {
        self.daemon.process.signal(Signal::TERM);
        assert!(self.daemon.process.wait().status.success());
        self.folder
    }
}

/// Sends commands to the engine.
pub(super) fn at_the_engine<T: Send>(
    sandbox: &Sandbox,
    work: impl AsyncFnOnce(&mut MultiplexedConnection) -> T + Send,
) -> T {
    Redis::at_the_peer(sandbox, async || {
        let client = redis::Client::open(Redis::url()).unwrap();
        work(&mut client.get_multiplexed_async_connection().await.unwrap()).await
    })
}

/// Sends one command to the engine.
pub(super) fn ask_engine<T: FromRedisValue + Send>(sandbox: &Sandbox, words: &[&str]) -> T {
    at_the_engine(sandbox, async |connection| {
        redis::cmd(words[0]).arg(&words[1..]).query_async(connection).await.unwrap()
    })
}
