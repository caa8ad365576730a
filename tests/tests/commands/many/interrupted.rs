//! Interrupted changes of many rules: killed or terminated at every relevant system call. Listed rules apply, and a
//! terminated command completes.

use std::{fs, net::Ipv4Addr, process::Command};

use ratelimit_tests::{Flood, Frame, Ratelimit, Sandbox, stdin};

use crate::PINS;

/// An allowed source with a bucket that says so.
const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 66);

/// Rules that take two system calls to write.
const RULES: usize = 5_000;

/// The injected signal.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Signal {
    Int,
    Hup,
    Term,
    Kill,
}

#[test]
fn a_killed_list_applies_what_it_wrote_and_a_terminated_list_is_completed() {
    let sandbox = Sandbox::new();
    let ratelimit = Ratelimit::new(&sandbox);
    ratelimit.ok("attach eth0 --front off");
    sandbox.add_peer_address(SOURCE);
    let lines: String = (0..RULES - 1).map(|number| format!("11.0.{}.{}\n", number >> 8, number & 255)).collect();
    let lines = format!("{SOURCE}\n{lines}");
    let is_mark = || sandbox.pins().iter().any(|pin| pin.ends_with("changing"));

    // From here on each change finds the same number of rules and makes the same system calls.
    ratelimit.ok_with("deny add -", &lines);
    let_pass(&sandbox, &ratelimit);
    let steps = traced(&sandbox, &ratelimit, &lines, None);
    assert_eq!(rules(&ratelimit), RULES);
    assert!(!is_mark());
    assert!(steps.len() >= 3, "only {} steps were found", steps.len());
    let mut halves = 0;
    for (turn, (call, number)) in steps.iter().enumerate() {
        for signal in [Signal::Kill, [Signal::Int, Signal::Hup, Signal::Term][turn % 3]] {
            let name = format!("{signal:?} at {call} {number}");
            let_pass(&sandbox, &ratelimit);
            let signal_name = format!("{signal:?}").to_uppercase();
            traced(&sandbox, &ratelimit, &lines, Some(&format!("inject={call}:signal={signal_name}:when={number}")));
            // This command only reads, but it opens the instance.
            let written = rules(&ratelimit);
            assert!(!is_mark(), "{name}");
            if signal == Signal::Kill {
                halves += u32::from((1..RULES).contains(&written));
            } else {
                assert_eq!(written, RULES, "{name}");
            }
            let denied = send(&sandbox, &ratelimit);
            assert_eq!(denied, if written == 0 { 0 } else { 10 }, "{name}: {written} are listed");
        }
    }

    assert_eq!(halves, 1, "one step is between the batches");

    // Nothing remains of an interrupted change until the next command opens the instance.
    let_pass(&sandbox, &ratelimit);
    let (call, number) = &steps[steps.len() / 2];
    traced(&sandbox, &ratelimit, &lines, Some(&format!("inject={call}:signal=KILL:when={number}")));
    assert!(is_mark());
    ratelimit.ok("detach --all");
    assert!(!sandbox.victim(|| fs::exists(PINS).unwrap()));
}

/// Returns the number of deny rules.
fn rules(ratelimit: &Ratelimit<'_>) -> usize {
    ratelimit.json("deny list").as_array().unwrap().len()
}

/// Allows the source and gives it a bucket that says so.
fn let_pass(sandbox: &Sandbox, ratelimit: &Ratelimit<'_>) {
    let denied: Vec<String> = ratelimit
        .json("deny list")
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["source"].as_str().unwrap().to_owned())
        .collect();
    // An empty list is an error.
    if !denied.is_empty() {
        ratelimit.ok_with("limit set - --packets 1M/s", &denied.join("\n"));
    }
    ratelimit.ok(&format!("limit set {SOURCE} --packets 1M/s"));
    assert_eq!(send(sandbox, ratelimit), 0);
}

/// Sends ten packets from the source. Returns how many were dropped.
fn send(sandbox: &Sandbox, ratelimit: &Ratelimit<'_>) -> u64 {
    let dropped = || ratelimit.json("status")["dropped"]["packets"].as_u64().unwrap();
    let before = dropped();
    Flood::of(Frame::udp(SOURCE, 9)).send(sandbox, 10);
    dropped() - before
}

/// Denies these lines under strace, which may inject a signal. Returns the system calls after the mark, each with its
/// number among calls of that name.
fn traced(
    sandbox: &Sandbox,
    ratelimit: &Ratelimit<'_>,
    lines: &str,
    injection: Option<&str>,
) -> Vec<(&'static str, usize)> {
    const CALLS: [&str; 3] = ["bpf", "mkdir", "rmdir"];
    let deny = ratelimit.command("deny add -");
    let trace = std::env::temp_dir().join(format!("ratelimit-cut-{}", std::process::id())).display().to_string();
    let mut command = Command::new("strace");
    command.args(["-qq", "-o", &trace, "-e", &format!("trace={}", CALLS.join(","))]);
    command.args(injection.iter().flat_map(|injection| ["-e", injection]));
    command.arg(deny.get_program()).args(deny.get_args()).env_remove("SSH_CONNECTION").stdin(stdin(lines));
    sandbox.output(&mut command);
    let text = fs::read_to_string(&trace).unwrap();
    fs::remove_file(&trace).unwrap();
    let (mut numbers, mut steps, mut is_under_way) = ([0; CALLS.len()], Vec::new(), false);
    for line in text.lines() {
        let Some(kind) = CALLS.iter().position(|call| line.starts_with(&format!("{call}("))) else { continue };
        numbers[kind] += 1;
        let writes = kind != 0 || line.contains("_UPDATE_");
        is_under_way |= line.contains("changing") || line.contains("BPF_MAP_UPDATE_BATCH");
        if is_under_way && writes {
            steps.push((CALLS[kind], numbers[kind]));
        }
    }
    steps
}
