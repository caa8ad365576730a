//! The local API of CrowdSec: answers that a daemon must not trust, and what stays in force meanwhile.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{Ipv4Addr, TcpListener, TcpStream},
    thread,
    time::Instant,
};

use ratelimit_tests::{Daemon, Folder, PATIENCE, Ratelimit, Sandbox};
use serde_json::{Value, json};

/// An API whose answers the test writes. The daemon asks it once a second, after it has put the answer before in force.
pub(super) struct Api(TcpListener);

/// A question that waits for its answer.
pub(super) struct Asked(TcpStream);

impl Api {
    pub(super) fn start(sandbox: &Sandbox) -> Self {
        let listener = sandbox.victim(|| TcpListener::bind((Ipv4Addr::LOCALHOST, 8080)).unwrap());
        listener.set_nonblocking(true).unwrap();
        Self(listener)
    }

    /// Waits for the next question, which must be for all decisions, or for changes.
    pub(super) fn asked(&self, is_for_all: bool) -> Asked {
        let begin = Instant::now();
        let stream = loop {
            if let Ok((stream, _)) = self.0.accept() {
                break stream;
            }
            assert!(begin.elapsed() < PATIENCE, "no question");
            thread::yield_now();
        };
        stream.set_nonblocking(false).unwrap();
        let head: Vec<String> =
            BufReader::new(&stream).lines().map(Result::unwrap).take_while(|it| !it.is_empty()).collect();
        let line = format!("GET /v1/decisions/stream?startup={is_for_all}&dedup=false HTTP/1.1");
        assert_eq!(head[0], line);
        assert!(head.iter().any(|header| header == "x-api-key: secret"), "{head:?}");
        Asked(stream)
    }
}

impl Asked {
    fn answer(self, status: &str, body: &str) {
        let mut stream = self.0;
        write!(stream, "HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
    }

    pub(super) fn decisions(self, new: &Value, deleted: &Value) {
        self.answer("200 OK", &json!({"new": new, "deleted": deleted}).to_string());
    }
}

pub(super) fn decision(id: u64, value: &str, kind: &str, duration: &str) -> Value {
    json!({"id": id, "value": value, "type": kind, "duration": duration, "scope": "Ip", "origin": "x", "scenario": "y"})
}

#[test]
fn a_daemon_keeps_its_list_whatever_an_api_answers_instead_of_decisions() {
    let sandbox = Sandbox::new();
    let (ratelimit, folder) = (Ratelimit::new(&sandbox), Folder::new());
    let key = folder.add("key", "secret\n");
    let table = format!("[crowdsec]\nkey-file = \"{}\"\nevery = \"1s\"\n", key.display());
    folder.write(&format!("interfaces = [\"eth0\"]\n{table}"));
    let api = Api::start(&sandbox);
    let mut run = ratelimit.command(&format!("run -c {}", folder.file().display()));
    run.env("SSH_CONNECTION", "198.51.100.5 50000 10.9.0.1 22");
    let mut daemon = Daemon::by(&sandbox, run);
    assert!(daemon.line().contains("in force"));
    let entries = || {
        let mut lines: Vec<_> = ratelimit.ok("list show crowdsec:bans --entries").lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    let state = || ratelimit.json("status")["config"]["crowdsec"].take();

    let asked = api.asked(true);
    assert_eq!((&state()["decisions"], &state()["problem"]), (&json!(null), &json!(null)));
    let new = [
        decision(1, "192.0.2.1", "ban", "1h"),
        decision(2, "192.0.2.1", "ban", "1h"),
        decision(3, "2001:db8::1", "ban", "1h"),
        decision(4, "192.0.2.9", "captcha", "1h"),
        // The session that has started the daemon comes from there.
        decision(5, "198.51.100.5", "ban", "1h"),
    ];
    asked.decisions(&json!(new), &json!(null));
    // The end of one of two decisions changes nothing.
    let asked = api.asked(false);
    assert_eq!(entries(), ["192.0.2.1", "2001:db8::1"]);
    assert_eq!((&state()["decisions"], &state()["ignored"]), (&json!(4), &json!(1)));
    assert!(
        daemon
            .line()
            .contains("only bans of addresses and ranges are put in force; left out, for example: type captcha")
    );
    assert!(daemon.line().ends_with("crowdsec: 4 decisions, 2 entries in force"));
    asked.decisions(&json!(null), &json!([{"id": 1}]));
    let asked = api.asked(false);
    assert_eq!(entries(), ["192.0.2.1", "2001:db8::1"]);

    // After an answer that was lost, changes are not enough.
    asked.answer("200 OK", r#"{"new":[{"id":7,"value":"192.0.2.7","type":"ban","duration":"1h","scope":"Ip"},"#);
    let asked = api.asked(true);
    assert!(daemon.line().contains("the answer cannot be used"));
    asked.decisions(&json!([]), &json!([]));
    let asked = api.asked(true);
    let problem = state()["problem"].take();
    assert_eq!(problem, "the API has 0 decisions now, and 2 entries are in force: it is asked again");
    asked.answer("403 Forbidden", "{}");
    let asked = api.asked(true);
    assert!(state()["problem"].as_str().unwrap().starts_with("the API refuses the key"), "{}", state());
    assert_eq!(entries(), ["192.0.2.1", "2001:db8::1"]);

    // A decision ends by itself.
    let new = [decision(8, "192.0.2.8", "ban", "1h"), decision(9, "192.0.2.99", "ban", "900ms")];
    asked.decisions(&json!(new), &json!([]));
    let asked = api.asked(false);
    assert!(daemon.line().contains("the API answers again"));
    asked.decisions(&json!(null), &json!(null));
    let asked = api.asked(false);
    assert_eq!(entries(), ["192.0.2.8"]);

    // Without the table, the list goes, also while a question waits.
    folder.write("interfaces = [\"eth0\"]\n");
    assert!(daemon.line().contains("reloaded"));
    let begin = Instant::now();
    while ratelimit.json("list list") != json!([]) {
        assert!(begin.elapsed() < PATIENCE, "the list stays");
    }
    daemon.end();
    drop(asked);
    ratelimit.ok("detach --all");
}
