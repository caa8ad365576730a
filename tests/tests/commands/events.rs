//! `events`: what happens, as it happens.

use std::{
    io::{BufRead as _, BufReader},
    net::Ipv4Addr,
    process::{ChildStdout, Stdio},
};

use ratelimit_tests::{Flood, Frame, Process, Ratelimit, Sandbox};
use serde_json::Value;

const NOISY: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 66);

/// `ratelimit events`, as it goes on.
struct Events {
    process: Process,
    lines: BufReader<ChildStdout>,
}

impl Events {
    /// It follows when this returns, as it says.
    fn start(sandbox: &Sandbox, ratelimit: &Ratelimit<'_>, words: &str) -> Self {
        let mut command = ratelimit.command(&format!("events {words}"));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = sandbox.start(command);
        let mut said = String::new();
        BufReader::new(process.child.stderr.take().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "ratelimit: waiting for events, Ctrl-C ends it\n");
        let lines = BufReader::new(process.child.stdout.take().unwrap());
        Self { process, lines }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn json(&mut self) -> Value {
        let line = self.line();
        serde_json::from_str(&line).unwrap_or(Value::String(line))
    }
}

#[test]
fn who_is_throttled_and_banned_is_told_once_and_when_that_ends() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 1/h --burst 5");
    ratelimit.ok("limit set 10.9.0.67 --packets 1/h --burst 5 --ban 3s");
    let mut events = Events::start(&sandbox, &ratelimit, "-n 4 --json");
    for number in 66..=67 {
        Flood::of(Frame::udp(Ipv4Addr::new(10, 9, 0, number), 9)).send(&sandbox, 1_000);
    }
    let mut told: Vec<Value> = (0..4).map(|_| events.json()).collect();
    assert!(events.process.wait().status.success());
    for event in &mut told {
        assert!(event["time"].take().as_str().unwrap().ends_with('Z'));
    }
    let of = |what: &str, source: &str| {
        let found = told.iter().filter(|event| event["event"] == what && event["source"] == source);
        assert_eq!(found.count(), 1, "{what} {source}: {told:#?}");
    };
    of("throttled", "10.9.0.66");
    of("throttled", "10.9.0.67");
    of("banned", "10.9.0.67");
    // The ban ends before anybody is quiet for long enough.
    of("unbanned", "10.9.0.67");
    ratelimit.ok("detach --all");
}

#[test]
fn more_than_can_be_told_is_counted() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 1/h --burst 2 --front off");
    let mut events = Events::start(&sandbox, &ratelimit, "--json");
    let sources = 5_000;
    Flood::of(Frame::udp(Ipv4Addr::new(10, 8, 0, 0), 9)).sources(sources).send(&sandbox, 3 * u64::from(sources));
    // Each source is refused once.
    let (mut told, mut left_out) = (0, 0);
    while told + left_out < u64::from(sources) {
        let event = events.json();
        match event["event"].as_str().unwrap() {
            "throttled" => told += 1,
            "left-out" => left_out += event["count"].as_u64().unwrap(),
            other => panic!("{other}: {event}"),
        }
    }
    assert_eq!(told + left_out, u64::from(sources));
    assert!((100..1_000).contains(&told), "{told} were told");
    ratelimit.ok("detach --all");
    // Without an instance there is nothing to follow.
    assert_eq!(events.process.wait().status.code(), Some(2));
    assert!(ratelimit.fails("events").contains("not attached"));
}

#[test]
fn who_has_become_quiet_is_told_in_words() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --packets 1/h --burst 5");
    let mut events = Events::start(&sandbox, &ratelimit, "-n 2");
    Flood::of(Frame::udp(NOISY, 9)).send(&sandbox, 100);
    let line = events.line();
    assert!(line.ends_with("Z 10.9.0.66: throttled (over-packets)"), "{line}");
    let line = events.line();
    assert!(line.contains("Z 10.9.0.66: no longer throttled, ") && line.contains(" packets dropped in "), "{line}");
    assert!(events.process.wait().status.success());
    ratelimit.ok("detach --all");
}
