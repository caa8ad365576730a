//! `sources`, and output in general.

use std::process::Stdio;

use ratelimit_tests::{Flood, Frame, Ratelimit, Sandbox};
use serde_json::json;

#[test]
fn sources_are_listed_by_what_was_dropped_or_passed() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    // Whoever stays within its limit is listed only where every source has a bucket of its own.
    ratelimit.ok("attach eth0 --packets 1/h --burst 5 --front off");
    ratelimit.ok("allow add 10.9.0.2");
    for (host, count) in [(1, 10), (2, 30), (3, 20)] {
        Flood::of(Frame::udp([10, 9, 0, host], 9)).send(&sandbox, count);
    }
    Flood::of(Frame::udp([0xfd00, 9, 0, 7, 0, 0, 0, 1], 9)).send(&sandbox, 1);
    let row = |source: &str, policy: &str, passed: u64, dropped: u64| {
        let length = if source.contains(':') { 62 } else { 60 };
        let traffic = |packets: u64| json!({"packets": packets, "bytes": packets * length});
        json!({"source": source, "service": "any", "policy": policy, "passed": traffic(passed), "dropped": traffic(dropped), "would_drop": {"packets": 0, "bytes": 0}})
    };
    let sources = [
        row("10.9.0.3", "1/h", 5, 15),
        row("10.9.0.1", "1/h", 5, 5),
        row("10.9.0.2", "allow", 30, 0),
        row("fd00:9:0:7::/64", "1/h", 1, 0),
    ];
    assert_eq!(ratelimit.json("sources"), json!(sources));
    assert_eq!(ratelimit.json("sources --sort passed -n 1"), json!([sources[2]]));
    let text = ratelimit.ok("sources -n 2");
    assert!(text.ends_with("and 2 more (-n 4)\n"), "{text}");
    assert_eq!(text.lines().nth(1), Some("10.9.0.3  any      1/h          5           300       15            900"));
    ratelimit.ok("detach --all");
}

#[test]
fn what_passed_is_called_an_estimate_where_it_is_one() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    let estimate = "what passed within a limit is estimated (`ratelimit help sources`)\n";
    assert!(ratelimit.ok("help sources").contains("is an estimate"));
    ratelimit.ok("attach eth0");
    ratelimit.ok("deny add 10.9.0.2");
    for host in 1..=2 {
        Flood::of(Frame::udp([10, 9, 0, host], 9)).send(&sandbox, 10);
    }
    // Without a limit every packet is counted, and what is denied has never passed.
    let text = ratelimit.ok("sources");
    assert!(text.lines().count() == 3 && !text.contains(estimate), "{text}");
    ratelimit.ok("limit set default --packets 1/h --burst 5");
    Flood::of(Frame::udp([10, 9, 0, 3], 9)).send(&sandbox, 20);
    let text = ratelimit.ok("sources");
    assert!(text.ends_with(estimate), "{text}");
    ratelimit.ok("detach --all");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    for words in ["status", "sources", "limit list", "--help"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = ratelimit.command(words);
        command.stdout(writer).stderr(Stdio::piped());
        let output = sandbox.start(command).wait();
        assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{words}");
    }
    ratelimit.ok("detach --all");
}

#[test]
fn a_reader_that_takes_its_time_holds_nobody_up() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0");
    // More than a pipe takes at once.
    Flood::of(Frame::udp([10, 9, 1, 0], 9)).sources(2_000).send(&sandbox, 2_000);
    let mut command = ratelimit.command("sources -n 2000 --json");
    command.stdout(Stdio::piped());
    let mut process = sandbox.start(command);
    let mut first = [0];
    std::io::Read::read_exact(process.child.stdout.as_mut().unwrap(), &mut first).unwrap();
    ratelimit.ok("detach --all");
    let rest = process.wait().stdout;
    assert!(first == *b"[" && rest.ends_with(b"]\n"));
}

#[test]
fn help_names_every_command_of_the_contract() {
    let sandbox = Sandbox::new();
    let help = Ratelimit::new(&sandbox).ok("--help");
    for command in ["attach", "detach", "limit", "allow", "deny", "status", "sources", "--json"] {
        assert!(help.contains(command), "{command}: {help}");
    }
}
