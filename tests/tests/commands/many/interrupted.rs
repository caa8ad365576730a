//! Interrupted changes of many rules: killed or terminated at every relevant system call. Listed rules apply, and a
//! terminated command completes.

use std::{fs, net::Ipv4Addr};

use ratelimit_tests::{Fault, Flood, Frame, Ratelimit, Sandbox, traced};

use crate::PINS;

/// An allowed source with a bucket that says so.
const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 66);

/// Rules that take two system calls to write.
const RULES: usize = 5_000;

#[test]
#[ignore = "slow: cargo xtask crash"]
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
    let steps = deny(&sandbox, &ratelimit, &lines, None);
    assert_eq!(rules(&ratelimit), RULES);
    assert!(!is_mark());
    assert!(steps.len() >= 3, "only {} steps were found", steps.len());
    let mut halves = 0;
    for (turn, (call, number)) in steps.iter().enumerate() {
        for signal in ["KILL", ["INT", "HUP", "TERM"][turn % 3]] {
            let name = format!("{signal} at {call} {number}");
            let_pass(&sandbox, &ratelimit);
            deny(&sandbox, &ratelimit, &lines, Some((call, *number, Fault::Signal(signal))));
            // This command only reads, but it opens the instance.
            let written = rules(&ratelimit);
            assert!(!is_mark(), "{name}");
            if signal == "KILL" {
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
    deny(&sandbox, &ratelimit, &lines, Some((call, *number, Fault::Signal("KILL"))));
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

/// Denies these lines, with a fault. Returns the system calls after the mark, each with its number among calls of that
/// name.
fn deny(
    sandbox: &Sandbox,
    ratelimit: &Ratelimit<'_>,
    lines: &str,
    fault: Option<(&'static str, usize, Fault)>,
) -> Vec<(&'static str, usize)> {
    let mut command = ratelimit.command("deny add -");
    command.env_remove("SSH_CONNECTION");
    let (mut steps, mut is_under_way) = (Vec::new(), false);
    for call in traced(sandbox, &command, lines, &["bpf", "mkdir", "rmdir"], fault).calls {
        is_under_way |= call.text.contains("changing") || call.text.contains("BPF_MAP_UPDATE_BATCH");
        if is_under_way && (call.name != "bpf" || call.text.contains("_UPDATE_")) {
            steps.push((call.name, call.number));
        }
    }
    steps
}
